//! The most valuable contents of one node where pods can be cut at will: a simplex with a row for each resource.
//!
//! Say a takes 0.2 of the cpu and 0.1 of the memory, b the reverse, and both are worth 1. Alone five of either fit. Together
//! 3.33 of each do, which is worth 6.67: what one leaves of a resource the other needs.

use smallvec::SmallVec;

/// Choices for the contents of a node, each with the amounts that it takes and a bound. Only their worth changes from one price
/// to the next, so that the rest is computed once for a node.
#[derive(Debug)]
pub(super) struct Choices<I> {
    /// Names of the choices, for the answer.
    pub names: Vec<I>,
    resources: usize,
    /// Parts of the node that a unit takes, by resource: all of one choice side by side.
    taken: Vec<f64>,
    /// The largest part that a unit takes of any resource.
    size: Vec<f64>,
    /// Largest number of units, or infinity.
    most: Vec<f64>,
}

impl<I> Choices<I> {
    /// No choices yet, for a node with `resources` resources that count.
    pub fn new(resources: usize) -> Self {
        Self { names: vec![], resources, taken: vec![], size: vec![], most: vec![] }
    }

    pub fn push(&mut self, name: I, taken: impl IntoIterator<Item = f64>, most: f64) {
        self.names.push(name);
        let before = self.taken.len();
        self.taken.extend(taken);
        self.size.push(self.taken[before..].iter().copied().fold(f64::MIN_POSITIVE, f64::max));
        self.most.push(most);
    }

    fn taken(&self, at: usize) -> &[f64] {
        &self.taken[at * self.resources..(at + 1) * self.resources]
    }
}

/// Bounds on the steps: each answer on the way is a filling. A choice with a bound of its own takes more.
const MOST_STEPS: usize = 24;
const STEPS_FOR_A_BOUND: usize = 2;

/// Number of resources up to which no memory is allocated.
const FEW: usize = 4;

/// Amounts below this are rounding noise.
const EPSILON: f64 = 1e-9;

/// A filling and the simplex that made it.
struct Tableau<'c, I> {
    choices: &'c Choices<I>,
    value: &'c [f64],
    /// The choices that are worth something.
    worth: Vec<usize>,
    rows: usize,
    inverse: Vec<f64>,
    /// Units of each row's choice, or the rest of its resource.
    level: Vec<f64>,
    basis: Vec<Option<usize>>,
    /// Price of what is left of each resource.
    price: Vec<f64>,
    /// True for choices that are at their bound.
    full: Vec<bool>,
}

/// The best contents: numbers of units by the names of choices, where `value` is the worth of a unit of each. Choices are
/// looked at in order.
pub(super) fn best<I: Copy>(choices: &Choices<I>, value: &[f64]) -> Vec<(I, f64)> {
    let rows = choices.resources;
    let mut inverse = vec![0.0; rows * rows];
    (0..rows).for_each(|row| inverse[row * rows + row] = 1.0);
    let worth: Vec<usize> = (0..value.len()).filter(|at| value[*at] > 0.0).collect();
    let bounds = worth.iter().filter(|at| choices.most[**at].is_finite()).count();
    let mut tableau = Tableau {
        choices,
        value,
        worth,
        rows,
        inverse,
        level: vec![1.0; rows],
        basis: vec![None; rows],
        price: vec![0.0; rows],
        full: vec![false; value.len()],
    };
    for _ in 0..MOST_STEPS + bounds * STEPS_FOR_A_BOUND {
        if !tableau.entering().is_some_and(|(at, gain)| tableau.enter(at, gain)) {
            break;
        }
    }
    let full = tableau.worth.iter().filter(|at| tableau.full[**at]).map(|at| (*at, choices.most[*at]));
    let basic = tableau.basis.iter().zip(&tableau.level).filter_map(|(at, level)| Some(((*at)?, *level)));
    let held = basic.chain(full).filter(|(_, level)| *level > EPSILON);
    held.map(|(at, level)| (choices.names[at], level)).collect()
}

impl<I> Tableau<'_, I> {
    /// The choice of which more, or less where it is full, gains most for its size, with its gain. This is where the time goes:
    /// for the usual numbers of resources the compiler knows the number.
    fn entering(&self) -> Option<(usize, f64)> {
        match self.rows {
            2 => self.entering_of(self.choices.taken.as_chunks::<2>().0),
            3 => self.entering_of(self.choices.taken.as_chunks::<3>().0),
            4 => self.entering_of(self.choices.taken.as_chunks::<4>().0),
            rows => self.best_of(|at| {
                let taken = self.choices.taken[at * rows..(at + 1) * rows].iter().zip(&self.price);
                taken.map(|(part, price)| part * price).sum()
            }),
        }
    }

    fn entering_of<const RESOURCES: usize>(&self, taken: &[[f64; RESOURCES]]) -> Option<(usize, f64)> {
        let mut price = [0.0; RESOURCES];
        price.copy_from_slice(&self.price);
        self.best_of(|at| taken[at].iter().zip(&price).map(|(part, price)| part * price).sum())
    }

    /// The choice that gains most, where `cost` returns the worth of the resources that a unit takes.
    fn best_of(&self, cost: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
        let mut best: Option<(f64, usize, f64)> = None;
        for at in self.worth.iter().copied() {
            // Worth of a unit beyond what it takes.
            let gain = self.value[at] - cost(at);
            // A choice that is full may be better lowered once something else has come in.
            let gained = if self.full[at] { -gain } else { gain };
            if gained > self.value[at] * 1e-6 {
                // By the resource that it takes most of: a choice that takes little of everything gains little
                // each, but there is room for much.
                let each = gained / self.choices.size[at];
                if best.is_none_or(|(most, _, _)| each > most) {
                    best = Some((each, at, gain));
                }
            }
        }
        best.map(|(_, at, gain)| (at, gain))
    }

    /// The row that first bounds a step in this direction, with the length of the step there.
    fn limit(&self, direction: &[f64]) -> Option<(usize, f64)> {
        let limit = |row: usize| {
            let (step, level) = (direction[row], self.level[row]);
            let most = self.basis[row].map_or(f64::INFINITY, |at| self.choices.most[at]);
            if step > EPSILON {
                Some((row, level / step))
            } else if step < -EPSILON && most.is_finite() {
                Some((row, (most - level).max(0.0) / -step))
            } else {
                None
            }
        };
        (0..self.rows).filter_map(limit).min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// Puts in as many units of a choice as can be, or takes as many out of one that is full; false if nothing bounds it.
    fn enter(&mut self, at: usize, gain: f64) -> bool {
        let rows = self.rows;
        let (parts, most) = (self.choices.taken(at), self.choices.most[at]);
        let taken = |row: usize| (0..rows).map(|at| self.inverse[row * rows + at] * parts[at]).sum();
        let direction: SmallVec<[f64; FEW]> = (0..rows).map(taken).collect();
        let sign = if self.full[at] { -1.0 } else { 1.0 };
        let signed: SmallVec<[f64; FEW]> = direction.iter().map(|step| step * sign).collect();
        let limit = self.limit(&signed);
        // Its own bound is met before anything runs out: the basis stays as it is.
        if most.is_finite() && limit.is_none_or(|(_, step)| most <= step) {
            for (level, step) in self.level.iter_mut().zip(&signed) {
                *level = (*level - step * most).max(0.0);
            }
            self.full[at] = !self.full[at];
            return true;
        }
        let Some((out, step)) = limit else { return false };
        // It leaves at zero, or at its bound if the step made it more.
        if let Some(leaving) = self.basis[out] {
            self.full[leaving] = signed[out] < 0.0;
        }
        let pivot = direction[out];
        let scaled: SmallVec<[f64; FEW]> =
            self.inverse[out * rows..(out + 1) * rows].iter().map(|value| value / pivot).collect();
        for row in (0..rows).filter(|row| *row != out) {
            let slots = &mut self.inverse[row * rows..(row + 1) * rows];
            slots.iter_mut().zip(&scaled).for_each(|(slot, value)| *slot -= direction[row] * value);
            self.level[row] = (self.level[row] - signed[row] * step).max(0.0);
        }
        self.price.iter_mut().zip(&scaled).for_each(|(price, value)| *price += gain * value);
        self.inverse[out * rows..(out + 1) * rows].copy_from_slice(&scaled);
        self.level[out] = if self.full[at] { (most - step).max(0.0) } else { step };
        self.basis[out] = Some(at);
        self.full[at] = false;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Worth of a unit, parts that it takes of each resource, and its bound.
    type Choice = (f64, Vec<f64>, f64);

    fn choice(value: f64, taken: &[f64], most: f64) -> Choice {
        (value, taken.to_vec(), most)
    }

    /// The worth of the best contents, and the contents; names are places.
    fn filled(given: &[Choice]) -> (f64, Vec<(usize, f64)>) {
        let mut choices = Choices::new(2);
        for (at, (_, taken, most)) in given.iter().enumerate() {
            choices.push(at, taken.iter().copied(), *most);
        }
        let value: Vec<f64> = given.iter().map(|(value, ..)| *value).collect();
        let held = best(&choices, &value);
        (held.iter().map(|(at, level)| value[*at] * level).sum(), held)
    }

    const ANY: f64 = f64::INFINITY;

    #[test]
    fn what_takes_one_resource_goes_with_what_takes_the_other() {
        let choices = [choice(1.0, &[0.2, 0.1], ANY), choice(1.0, &[0.1, 0.2], ANY), choice(0.5, &[0.1, 0.1], ANY)];
        let (worth, held) = filled(&choices);
        assert!((worth - 20.0 / 3.0).abs() < 1e-6, "{worth}");
        assert_eq!(held.iter().map(|(at, _)| *at).min(), Some(0));
        assert!(held.iter().all(|(_, level)| (level - 10.0 / 3.0).abs() < 1e-6), "{held:?}");
    }

    #[test]
    fn the_scarcest_resource_bounds() {
        let (worth, held) = filled(&[choice(3.0, &[0.5, 0.01], ANY)]);
        assert!((worth - 6.0).abs() < 1e-9);
        assert_eq!(held, [(0, 2.0)]);
    }

    #[test]
    fn knapsack_respects_item_bounds_and_fills_rest_with_others() {
        let choices = [choice(9.0, &[0.1, 0.1], 2.0), choice(1.0, &[0.1, 0.1], ANY)];
        let (worth, held) = filled(&choices);
        assert!((worth - 26.0).abs() < 1e-6, "{worth}");
        assert_eq!(held.len(), 2, "{held:?}");
    }

    proptest! {
        /// By the dual: the worth of the resources and the bounds at the prices found is the worth of the contents.
        #[test]
        fn nothing_more_could_be_put_in(
            drawn in prop::collection::vec((1u32..50, 1u32..90, 1u32..90, 1u32..6), 1..9),
        ) {
            let choices: Vec<Choice> = drawn
                .iter()
                .map(|(value, cpu, memory, most)| {
                    let taken = [f64::from(*cpu) / 100.0, f64::from(*memory) / 100.0];
                    choice(f64::from(*value), &taken, if *most == 5 { ANY } else { f64::from(*most) })
                })
                .collect();
            let (worth, held) = filled(&choices);
            for resource in 0..2 {
                let taken: f64 = held.iter().map(|(at, level)| choices[*at].1[resource] * level).sum();
                prop_assert!(taken <= 1.0 + 1e-6, "{taken}");
            }
            prop_assert!(held.iter().all(|(at, level)| *level <= choices[*at].2 + 1e-6));
            // The least that any prices of the two resources make of it is no less than the most that can be put in.
            let dual = |cpu: f64, memory: f64| {
                let beyond = |one: &Choice| (one.0 - one.1[0] * cpu - one.1[1] * memory).max(0.0);
                let bounds = choices.iter().map(|one| {
                    let beyond = beyond(one);
                    if beyond <= 1e-9 { 0.0 } else { beyond * one.2 }
                });
                cpu + memory + bounds.sum::<f64>()
            };
            // It is least where two of its pieces meet.
            let lines: Vec<[f64; 3]> = choices
                .iter()
                .map(|one| [one.1[0], one.1[1], one.0])
                .chain([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]])
                .collect();
            let mut least = f64::INFINITY;
            for a in &lines {
                for b in &lines {
                    let det = a[0] * b[1] - a[1] * b[0];
                    if det.abs() > 1e-12 {
                        let cpu = (a[2] * b[1] - a[1] * b[2]) / det;
                        let memory = (a[0] * b[2] - a[2] * b[0]) / det;
                        if cpu >= -1e-9 && memory >= -1e-9 {
                            least = least.min(dual(cpu.max(0.0), memory.max(0.0)));
                        }
                    }
                }
            }
            prop_assert!((worth - least).abs() < 1e-4 * least.max(1.0), "{worth} of {least}");
        }
    }
}
