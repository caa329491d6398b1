//! Allowance of a command while it is being put together.

use super::pass::{Left, Pass};
use crate::disruption::RemovalReason;
use crate::pack::model::ids::{NodeId, PodId};

/// Rest of pools' budgets, of PodDisruptionBudgets and of the size of one command.
#[derive(Clone, Debug)]
pub(super) struct Allowance {
    left: Vec<Option<usize>>,
    evictions: Vec<u32>,
    nodes: usize,
}

impl Allowance {
    /// The rest that a pass has for a reason, for a command of at most `most` nodes.
    pub fn left_in(pass: &Pass<'_, '_, '_>, reason: RemovalReason, most: usize) -> Self {
        let number = |mut left: Left| *left.number_for(reason);
        Self { left: pass.left.iter().copied().map(number).collect(), evictions: pass.evictions.clone(), nodes: most }
    }

    /// True if a command of one more node is too large, whichever that is.
    pub fn is_spent(&self) -> bool {
        self.nodes == 0
    }

    /// Takes a node with its pods off; an error with the reason if that is more than there is.
    pub fn take_node(&mut self, pass: &Pass<'_, '_, '_>, node: NodeId) -> Result<(), String> {
        self.take_with(pass, node, |_| true)
    }

    /// Takes a node off that has taken in pods of nodes taken off before: only its own pods count.
    pub fn take_own(&mut self, pass: &Pass<'_, '_, '_>, node: NodeId) -> Result<(), String> {
        self.take_with(pass, node, |pod| pass.cluster.home[pod].0 == node)
    }

    fn take_with(
        &mut self,
        pass: &Pass<'_, '_, '_>,
        node: NodeId,
        counts: impl Fn(PodId) -> bool,
    ) -> Result<(), String> {
        let pool = pass.nodes[node].pool.ok_or("no NodePool manages it")?;
        if self.left[pool] == Some(0) {
            return Err("its NodePool's budgets allow no more disruptions now".into());
        }
        if self.is_spent() {
            return Err("the command is full".into());
        }
        let mut evictions = self.evictions.clone();
        for pod in pass.fleet.nodes[node].pods.iter().filter(|pod| counts(**pod)) {
            let Some(pdb) = pass.cluster.pod(*pod).pdb else { continue };
            if evictions[pdb] == 0 {
                return Err(format!("pdb {} allows too few evictions at once", pass.cluster.pdbs[pdb].name));
            }
            evictions[pdb] -= 1;
        }
        self.evictions = evictions;
        self.nodes -= 1;
        self.left[pool] = self.left[pool].map(|left| left - 1);
        Ok(())
    }
}
