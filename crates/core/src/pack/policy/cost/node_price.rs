//! Cost of a node beside its price: part of the objective, not of what is paid.

/// Largest cost of a node beside its price, as a part of that price. $0.02 is a tenth of an on-demand node and twice the price
/// of a small spot node, which would never be bought. With less, pods get more nodes for the same money (docs/decisions/009).
const MOST_OF_THE_PRICE: f64 = 1.0;

/// Cost of a node beside its price, in dollars an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct NodePrice {
    usual: f64,
    more: f64,
}

impl NodePrice {
    /// The usual cost, as settings have it: what one node less is worth.
    pub const fn new(usual: f64) -> Self {
        Self { usual, more: 0.0 }
    }

    /// The cost with `more` for each node, whatever its price: fewer nodes are looked for.
    pub fn and(self, more: f64) -> Self {
        Self { more: self.more + more, ..self }
    }

    pub fn with(self, price: f64) -> f64 {
        price + self.extra_for(price)
    }

    /// Cost beside its price of a node of this price.
    pub fn extra_for(self, price: f64) -> f64 {
        self.usual.min(price * MOST_OF_THE_PRICE) + self.more
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn node_surcharge_is_the_set_amount_up_to_a_cheap_nodes_price() {
        let node = NodePrice::new(0.02);
        for (price, beside) in [(1.0, 0.02), (0.2, 0.02), (0.01, 0.01), (0.0, 0.0)] {
            assert!((node.extra_for(price) - beside).abs() < 1e-12, "{price}");
        }
    }

    #[test]
    fn what_is_to_be_saved_by_fewer_nodes_counts_whole() {
        assert!((NodePrice::new(0.02).and(0.5).with(0.01) - 0.52).abs() < 1e-12);
    }
}
