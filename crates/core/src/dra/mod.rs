//! Dynamic resource allocation (`resource.k8s.io/v1`): pods that ask for devices by ResourceClaims.
//!
//! ```text
//! ResourceClaim ─claim─┐
//! DeviceClass ─────────┼─ book ──► places ──► search ──► stage: each pod on one existing node, or in one bin of a new node
//! ResourceSlice ─slice─┘             ▲                     │
//! instance types ─── templates ──────┘                     └──► packing, which knows no devices
//! ```
//!
//! kube-scheduler allocates; nothing here writes to a claim. Packing knows no devices: the stage before it decides which pods
//! share a node's devices, and gives each such pod rules that packing knows.

mod allocate;
mod bins;
mod book;
mod claim;
mod device;
mod places;
mod placing;
mod question;
mod search;
mod selector;
mod slice;
mod stage;
mod templates;
mod walk;
mod weight;

pub use allocate::{allocate, lacking_devices};
pub use book::{DeviceBook, Known};
pub use claim::{Claim, ClassSelectors, read_class};
pub use device::{AttributeValue, Device, DeviceId, DeviceTraits, full_name};
pub use places::{DeviceGates, DeviceModel, DeviceNode, KnownDevices};
pub use question::{DeviceAnswer, DeviceQuestion};
pub use search::{Devices, MOST_STEPS, Place, Search, Wanted};
pub use selector::{Answer, Selectors};
pub use slice::{Pool, Reach, Slice, gather_pools};
pub use stage::{DevicePlan, Misfits, plan_devices};
pub use templates::{NVIDIA, efa_pools, learned_pools, nvidia_pools};
