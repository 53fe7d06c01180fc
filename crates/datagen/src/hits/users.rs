//! Users: what does not change from one page view of a user to the next.
//!
//! A user is a rank; the identifier and all else are drawn from a sequence that belongs to it.

use crate::random::{Random, Weighted, splitmix};

/// The user that Q19 looks for, and its rank.
const SOUGHT_USER: (u32, i64) = (1_000, 435_090_932_899_640_449);

/// Regions' numbers are spread over a prime, the most frequent one being 229.
const REGION_COUNT: u32 = 5_000;
const REGION_NUMBERS: u32 = 10_007;
const REGION_STEP: u32 = 7_919;
const FIRST_REGION: u32 = 229;

/// Width and height of screens with their weights.
const SCREENS: [(i16, i16, f64); 14] = [
    (1368, 768, 22.0),
    (1920, 1080, 17.0),
    (1280, 1024, 14.0),
    (1638, 1658, 12.0),
    (1024, 768, 7.0),
    (1280, 800, 6.0),
    (1440, 900, 6.0),
    (1680, 1050, 5.0),
    (1600, 900, 4.0),
    (1996, 1666, 2.0),
    (768, 1024, 2.0),
    (320, 480, 1.5),
    (360, 640, 1.0),
    (0, 0, 0.5),
];
/// Operating systems and browsers by rank, and makers of phones.
const SYSTEM_WEIGHTS: [f64; 8] = [44.0, 30.0, 9.0, 6.0, 4.0, 3.0, 2.0, 1.0];
const BROWSER_WEIGHTS: [f64; 8] = [30.0, 22.0, 18.0, 12.0, 8.0, 5.0, 3.0, 2.0];
pub(super) const MAKER_COUNT: u32 = 8;
const MODELS_PER_MAKER: u32 = 20;

#[derive(Debug, Clone, Copy)]
pub(super) struct User {
    /// `UserID`.
    pub(super) id: i64,
    pub(super) region: i32,
    pub(super) address: i32,
    pub(super) screen: (i16, i16),
    pub(super) system: i16,
    pub(super) browser: i16,
    /// Maker and model; most users have no phone.
    pub(super) phone: Option<(u32, u32)>,
    /// Hours east of UTC.
    pub(super) time_zone: i16,
    /// For the small numbers that nothing else depends on.
    pub(super) bits: u64,
}

pub(super) struct Users {
    regions: Weighted,
    screens: Weighted,
    systems: Weighted,
    browsers: Weighted,
}

impl Users {
    pub(super) fn new() -> Self {
        let regions: Vec<f64> = (0..REGION_COUNT).map(|rank| 1.0 / (f64::from(rank) + 3.0)).collect();
        Self {
            regions: Weighted::new(&regions),
            screens: Weighted::new(&SCREENS.map(|(_, _, weight)| weight)),
            systems: Weighted::new(&SYSTEM_WEIGHTS),
            browsers: Weighted::new(&BROWSER_WEIGHTS),
        }
    }

    pub(super) fn user(&self, rank: u32) -> User {
        let random = &mut Random::of(u64::from(rank));
        let (width, height, _) = SCREENS[self.screens.draw(random) as usize];
        User {
            id: user_id(rank),
            region: region(self.regions.draw(random)),
            address: random.next_u64() as i32,
            screen: (width, height),
            system: self.systems.draw(random) as i16,
            browser: self.browsers.draw(random) as i16,
            phone: random.chance(0.06).then(|| (random.skewed(MAKER_COUNT), random.skewed(MODELS_PER_MAKER))),
            time_zone: 3 + random.skewed(8) as i16,
            bits: random.next_u64(),
        }
    }
}

/// Distinct for all ranks but with negligible chance.
pub(super) fn user_id(rank: u32) -> i64 {
    match rank {
        rank if rank == SOUGHT_USER.0 => SOUGHT_USER.1,
        _ => (splitmix(u64::from(rank) + 1) >> 1) as i64,
    }
}

fn region(rank: u32) -> i32 {
    ((rank * REGION_STEP + FIRST_REGION) % REGION_NUMBERS) as i32
}
