//! Groups by keys of a few bytes, each of which lies beside its group.
//!
//! ```text
//!   key ─▶ hash of key / 4, then key % 4 ─▶ [ key, group ]  [ key, group ]  [      ]  ...   one line of a cache has some of them
//! ```
//!
//! DataFusion keeps hashes in one place and keys in another, so that a row waits for memory twice; here the key lies beside its
//! group. Keys that are close to each other lie close to each other: those of a table that is sorted by them, which come one
//! after the other, are found in the lines of a cache that the ones before brought. Places of several rows are read before any is
//! looked at, so that what comes from memory comes at the same time.

use datafusion::error::{DataFusionError, Result};

/// Four keys lie beside each other: of 64 bits, as many as a line has.
pub(super) const NEAR_BITS: u32 = 2;
/// Rows whose places are read at the same time: a core waits for some ten lines at once.
const AT_ONCE: usize = 16;
const PLACES_MIN: usize = 64;
/// What bits are mixed with: 2^64 over the golden ratio, and the square root of two.
const FACTORS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0x6A09_E667_F3BC_C909];

/// What tells groups apart.
pub(super) trait Key: Copy + Eq + Default + Send + 'static {
    /// One hash for keys that lie beside each other, whose high bits are good.
    fn far_hash(self) -> u64;

    /// What differs between keys that lie beside each other, of [`NEAR_BITS`].
    fn near(self) -> u64;
}

macro_rules! key_of_one_word {
    ($($native:ty),+) => {$(
        impl Key for $native {
            #[inline]
            fn far_hash(self) -> u64 {
                mixed((self as u64 >> NEAR_BITS) ^ FACTORS[0], FACTORS[1])
            }

            #[inline]
            fn near(self) -> u64 {
                self as u64 & ((1 << NEAR_BITS) - 1)
            }
        }
    )+};
}

key_of_one_word!(i8, i16, i32, i64, u64);

impl Key for [u64; 2] {
    #[inline]
    fn far_hash(self) -> u64 {
        mixed(self[0].far_hash() ^ self[1], FACTORS[0])
    }

    #[inline]
    fn near(self) -> u64 {
        self[0].near()
    }
}

#[inline]
fn mixed(bits: u64, factor: u64) -> u64 {
    let wide = u128::from(bits) * u128::from(factor);
    (wide as u64) ^ (wide >> 64) as u64
}

/// Groups, in the order in which their keys came first.
pub(super) struct KeyGroups<K> {
    /// By hash, a power of two of them, at most half of which are taken: a key, and one more than its group; 0 where no key is.
    /// Pairs, because memory for these comes as zeros from the system.
    places: Vec<(K, u32)>,
    /// Of each group; of the one without a key anything.
    keys: Vec<K>,
    /// The group of what has no key.
    without: Option<usize>,
}

impl<K: Key> KeyGroups<K> {
    /// No groups yet, with room for so many.
    pub(super) fn new(room: usize) -> Self {
        Self { places: empty_places(room), keys: Vec::new(), without: None }
    }

    /// The first place where `key` may be.
    #[inline]
    fn place_of(&self, key: K) -> usize {
        let far = key.far_hash() >> (u64::BITS - self.places.len().ilog2());
        (far ^ key.near()) as usize
    }

    /// The group of `key`, which is looked for from `place` on; a new one if it has none.
    #[inline]
    fn group_from(&mut self, mut place: usize, key: K) -> Result<usize> {
        let mask = self.places.len() - 1;
        loop {
            let (known, group) = self.places[place];
            if group == 0 {
                break;
            }
            if known == key {
                return Ok(group as usize - 1);
            }
            place = (place + 1) & mask;
        }
        let group = self.next_group()?;
        self.places[place] = (key, group as u32 + 1);
        self.keys.push(key);
        Ok(group)
    }

    /// The number of a group that is about to be made.
    fn next_group(&self) -> Result<usize> {
        let group = self.keys.len();
        if group as u64 >= u64::from(u32::MAX - 1) {
            let text = "more than 4,294,967,294 groups in one partition; use more --threads";
            return Err(DataFusionError::ResourcesExhausted(text.to_owned()));
        }
        Ok(group)
    }

    /// Room for so many more groups, such that at most half of the places are taken.
    fn make_room(&mut self, more: usize) {
        let room = self.keys.len() + more;
        if room * 2 > self.places.len() {
            self.places = empty_places(room);
            self.place_all();
        }
    }

    /// Puts all groups into their places, of which none is taken.
    fn place_all(&mut self) {
        let mask = self.places.len() - 1;
        for group in (0..self.keys.len()).filter(|group| Some(*group) != self.without) {
            let key = self.keys[group];
            let mut place = self.place_of(key);
            while self.places[place].1 != 0 {
                place = (place + 1) & mask;
            }
            self.places[place] = (key, group as u32 + 1);
        }
    }

    /// The group of one key.
    pub(super) fn group_of(&mut self, key: K) -> Result<usize> {
        self.make_room(1);
        self.group_from(self.place_of(key), key)
    }

    /// The group of what has no key.
    pub(super) fn group_without_key(&mut self) -> Result<usize> {
        if let Some(group) = self.without {
            return Ok(group);
        }
        let group = self.next_group()?;
        self.keys.push(K::default());
        self.without = Some(group);
        Ok(group)
    }

    /// Adds the groups of `keys`.
    pub(super) fn add(&mut self, keys: &[K], groups: &mut Vec<usize>) -> Result<()> {
        let mut places = [0; AT_ONCE];
        for keys in keys.chunks(AT_ONCE) {
            self.make_room(keys.len());
            for (place, key) in places.iter_mut().zip(keys) {
                *place = self.place_of(*key);
            }
            // Each load waits for none before it. The compiler may not leave them out.
            let read = places[..keys.len()].iter().map(|place| self.places[*place].1);
            std::hint::black_box(read.fold(0, |all, group| all | group));
            let mut last: Option<(K, usize)> = None;
            for (place, key) in places.into_iter().zip(keys) {
                let group = match last {
                    Some((last, group)) if last == *key => group,
                    _ => self.group_from(place, *key)?,
                };
                last = Some((*key, group));
                groups.push(group);
            }
        }
        Ok(())
    }

    /// The keys of all groups; of the one without a key anything.
    pub(super) fn keys(&self) -> &[K] {
        &self.keys
    }

    /// The group of what has no key, if there is one.
    pub(super) fn without(&self) -> Option<usize> {
        self.without
    }

    /// Forgets the first so many groups. What comes next may be as many.
    pub(super) fn forget_first(&mut self, count: usize) {
        self.keys.drain(..count);
        self.without = self.without.and_then(|without| without.checked_sub(count));
        self.places.fill(Default::default());
        self.place_all();
    }

    /// Bytes of memory.
    pub(super) fn size(&self) -> usize {
        self.places.capacity() * size_of::<(K, u32)>() + self.keys.capacity() * size_of::<K>()
    }
}

/// Room for so many groups.
fn empty_places<K: Default + Clone>(room: usize) -> Vec<(K, u32)> {
    vec![Default::default(); (room * 2).next_power_of_two().max(PLACES_MIN)]
}
