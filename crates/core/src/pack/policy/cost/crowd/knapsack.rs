//! The most valuable contents of one node where pods can be cut at will: a simplex with a row for each resource.
//!
//! Say a takes 0.2 of the cpu and 0.1 of the memory, b the reverse, and both are worth 1. Alone five of either fit. Together
//! 3.33 of each do, which is worth 6.67: what one leaves of a resource the other needs.

use smallvec::SmallVec;

/// What may be put in: for each choice what it takes, how much of it there may be, and what it is worth. Nothing of this
/// but the worth changes from one price to the next, so that the rest is worked out once for a node.
#[derive(Debug)]
pub(super) struct Choices<I> {
    /// What is put in is told by these.
    pub names: Vec<I>,
    /// How many resources count.
    resources: usize,
    /// What a unit takes of each resource, as a part of the node: all of one choice side by side.
    taken: Vec<f64>,
    /// The most that a unit takes of any resource.
    size: Vec<f64>,
    /// How much may be put in, or infinity.
    most: Vec<f64>,
}

impl<I> Choices<I> {
    /// None yet, of a node with so many resources that count.
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

/// Steps are bounded: each answer on the way is a filling. A choice of which only so much may be put in takes more.
const MOST_STEPS: usize = 24;
const STEPS_FOR_A_BOUND: usize = 2;

/// So many resources are worked on without memory of their own.
const FEW: usize = 4;

/// Less is noise.
const EPSILON: f64 = 1e-9;

/// A filling and the simplex that made it.
struct Tableau<'c, I> {
    choices: &'c Choices<I>,
    value: &'c [f64],
    /// The choices that are worth something.
    worth: Vec<usize>,
    rows: usize,
    inverse: Vec<f64>,
    /// How much there is of each row's choice, or of what is left of its resource.
    level: Vec<f64>,
    basis: Vec<Option<usize>>,
    /// What is left of each resource is worth.
    price: Vec<f64>,
    /// The choices of which there is as much as may be.
    full: Vec<bool>,
}

/// How much of which choices, by their names, where a unit of each is worth so much. They are looked at in order.
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
    /// The choice of which more, or less where it is full, gains most for its size, and what it gains. This is where the
    /// time goes: for the usual numbers of resources the compiler knows how many there are.
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

    /// The same, where `cost` says what the resources that a unit of a choice takes are worth.
    fn best_of(&self, cost: impl Fn(usize) -> f64) -> Option<(usize, f64)> {
        let mut best: Option<(f64, usize, f64)> = None;
        for at in self.worth.iter().copied() {
            // What a unit is worth beyond what it takes.
            let gain = self.value[at] - cost(at);
            // Of what is full, less can be better once something else has come in.
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

    /// The row that bounds a step of so much in each row first, with how far it goes.
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

    /// Puts in as much of a choice as can be, or takes as much out of one that is full; says whether that came to an end.
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

    /// Worth, what is taken of each resource, and how much there may be.
    type Choice = (f64, Vec<f64>, f64);

    fn choice(value: f64, taken: &[f64], most: f64) -> Choice {
        (value, taken.to_vec(), most)
    }

    /// What is put in, and what that is worth; names are places.
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
        /// By the dual: what the resources and the bounds are worth at the prices found is what is put in.
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
