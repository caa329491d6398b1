//! What a node costs beside its price: part of the objective, not of what is paid.

/// Of a cheap node no more than this part of its price counts. $0.02 is a tenth of an on-demand node and twice the price of a
/// small spot node, which would never be bought. With less, pods get more nodes for the same money (docs/decisions/009).
const MOST_OF_THE_PRICE: f64 = 1.0;

/// What a node costs beside its price, in dollars an hour.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct NodePrice {
    usual: f64,
    more: f64,
}

impl NodePrice {
    /// What a node more is worth avoiding, as settings say it.
    pub const fn new(usual: f64) -> Self {
        Self { usual, more: 0.0 }
    }

    /// The same where so much more is to be saved by each node, whatever its price: fewer nodes are looked for.
    pub fn and(self, more: f64) -> Self {
        Self { more: self.more + more, ..self }
    }

    /// A node's price with what it costs beside it.
    pub fn with(self, price: f64) -> f64 {
        price + self.of(price)
    }

    /// What a node of such a price costs beside it.
    pub fn of(self, price: f64) -> f64 {
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
            assert!((node.of(price) - beside).abs() < 1e-12, "{price}");
        }
    }

    #[test]
    fn what_is_to_be_saved_by_fewer_nodes_counts_whole() {
        assert!((NodePrice::new(0.02).and(0.5).with(0.01) - 0.52).abs() < 1e-12);
    }
}
