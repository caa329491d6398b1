//! The most valuable contents of one node where pods can be cut at will: a simplex with a row for each resource.

/// What may be put in: what a unit of it is worth, and what that takes of each resource, as a part of the node.
pub(super) type Choice = (f64, Vec<f64>);

/// Steps are bounded: each answer on the way is a filling.
const MOST_STEPS: usize = 24;

/// Less is noise.
const EPSILON: f64 = 1e-9;

/// How much of which choices, and what that is worth. `choices` are looked at in order.
pub(super) fn best(choices: &[(usize, Choice)], rows: usize) -> (f64, Vec<(usize, f64)>) {
    let mut inverse = vec![0.0; rows * rows];
    (0..rows).for_each(|row| inverse[row * rows + row] = 1.0);
    let mut level = vec![1.0; rows];
    let mut basis: Vec<Option<usize>> = vec![None; rows];
    let mut price = vec![0.0; rows];
    for _ in 0..MOST_STEPS {
        let gain =
            |(value, taken): &Choice| value - taken.iter().zip(&price).map(|(part, price)| part * price).sum::<f64>();
        let size = |taken: &[f64]| taken.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
        let mut entering: Option<(f64, usize)> = None;
        for (at, (_, choice)) in choices.iter().enumerate() {
            let gain = gain(choice);
            if gain > choice.0 * 1e-6 {
                let each = gain / size(&choice.1);
                if entering.is_none_or(|(best, _)| each > best) {
                    entering = Some((each, at));
                }
            }
        }
        let Some((_, entering)) = entering else { break };
        let choice = &choices[entering].1;
        let gained = gain(choice);
        let direction: Vec<f64> =
            (0..rows).map(|row| (0..rows).map(|at| inverse[row * rows + at] * choice.1[at]).sum()).collect();
        let limits = (0..rows).filter(|row| direction[*row] > EPSILON);
        let out = limits.min_by(|a, b| (level[*a] / direction[*a]).total_cmp(&(level[*b] / direction[*b])));
        let Some(out) = out else { break };
        let (pivot, step) = (direction[out], level[out] / direction[out]);
        let scaled: Vec<f64> = inverse[out * rows..(out + 1) * rows].iter().map(|value| value / pivot).collect();
        for row in (0..rows).filter(|row| *row != out) {
            let slots = &mut inverse[row * rows..(row + 1) * rows];
            slots.iter_mut().zip(&scaled).for_each(|(slot, value)| *slot -= direction[row] * value);
            level[row] = (level[row] - direction[row] * step).max(0.0);
        }
        price.iter_mut().zip(&scaled).for_each(|(price, value)| *price += gained * value);
        inverse[out * rows..(out + 1) * rows].copy_from_slice(&scaled);
        level[out] = step;
        basis[out] = Some(entering);
    }
    let held = basis.iter().zip(&level).filter_map(|(at, level)| Some(((*at)?, *level)));
    let held: Vec<(usize, f64)> = held.filter(|(_, level)| *level > EPSILON).collect();
    let worth = held.iter().map(|(at, level)| choices[*at].1.0 * level).sum();
    (worth, held.into_iter().map(|(at, level)| (choices[at].0, level)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_takes_one_resource_goes_with_what_takes_the_other() {
        let choices = [(7, (1.0, vec![0.2, 0.1])), (8, (1.0, vec![0.1, 0.2])), (9, (0.5, vec![0.1, 0.1]))];
        let (worth, held) = best(&choices, 2);
        assert!((worth - 20.0 / 3.0).abs() < 1e-6, "{worth}");
        assert_eq!(held.iter().map(|(at, _)| *at).min(), Some(7));
        assert!(held.iter().all(|(_, level)| (level - 10.0 / 3.0).abs() < 1e-6), "{held:?}");
    }

    #[test]
    fn the_scarcest_resource_bounds() {
        let (worth, held) = best(&[(0, (3.0, vec![0.5, 0.01]))], 2);
        assert!((worth - 6.0).abs() < 1e-9);
        assert_eq!(held, [(0, 2.0)]);
    }
}
