//! The programs that a compiler holds ready, by key and device; the least recently used go first.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use pelton_device::DeviceId;

use super::Program;

/// What a program is known by: the hash of all it depends on, and where it is loaded.
pub(super) type ProgramKey = (u128, Option<DeviceId>);

/// A place for one program. Whoever finds it empty fills it while holding the lock; others wait.
pub(super) type Slot = Arc<Mutex<Option<Arc<Program>>>>;

/// Programs in memory, up to a maximum number of slots.
pub(super) struct Programs {
    slots: HashMap<ProgramKey, (u64, Slot)>,
    count_max: usize,
    /// Counts requests, to say which slot was used last.
    clock: u64,
}

impl Programs {
    pub(super) fn new(count_max: usize) -> Self {
        Self { slots: HashMap::new(), count_max, clock: 0 }
    }

    /// The slot of `key`, made if need be. One that goes to make room lives on in the hands of whoever has it.
    pub(super) fn slot(&mut self, key: ProgramKey) -> Slot {
        self.clock += 1;
        if !self.slots.contains_key(&key) && self.slots.len() >= self.count_max {
            let oldest = self.slots.iter().min_by_key(|(_, (used, _))| *used).map(|(key, _)| *key);
            oldest.and_then(|key| self.slots.remove(&key));
        }
        let (used, slot) = self.slots.entry(key).or_default();
        *used = self.clock;
        Arc::clone(slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_slot_makes_room() {
        let mut programs = Programs::new(2);
        let (first, second) = (programs.slot((1, None)), programs.slot((2, None)));
        assert!(Arc::ptr_eq(&first, &programs.slot((1, None))));
        programs.slot((3, None));
        assert!(Arc::ptr_eq(&first, &programs.slot((1, None))), "used after the second");
        assert!(!Arc::ptr_eq(&second, &programs.slot((2, None))));
        assert_eq!(programs.slots.len(), 2);
    }

    #[test]
    fn each_device_has_its_own() {
        let mut programs = Programs::new(4);
        let first = programs.slot((1, Some(DeviceId(0))));
        assert!(!Arc::ptr_eq(&first, &programs.slot((1, Some(DeviceId(1))))));
    }
}
