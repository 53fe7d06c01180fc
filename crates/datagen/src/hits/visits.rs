//! Visits: a user comes to a site on a day, from somewhere, and looks at a few pages.

use super::sites::Stretch;
use super::users::{User, Users, user_id};
use crate::random::{Random, splitmix};

const DAY_SECONDS: u32 = 86_400;
/// Most page views of one visit.
const VIEWS_MAX: u32 = 40;

/// The share of page views that are of the site's first page.
const HOME_SHARE: f64 = 0.25;
/// Shares of visits by where they come from; the rest comes directly.
const SEARCH_SHARE: f64 = 0.13;
const ADVERTISEMENT_SHARE: f64 = 0.006;
const LINK_SHARE: f64 = 0.45;

/// Identifiers of search engines and of advertising ones, by rank.
const SEARCH_ENGINES: [i16; 6] = [2, 3, 13, 4, 1, 39];
const ADVERTISERS: [i16; 8] = [2, 27, 13, 45, 44, 3, 62, 52];

/// Where a visit comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Direct,
    /// With the rank of the phrase.
    Search {
        engine: i16,
        phrase: u32,
    },
    Advertisement(i16),
    /// A page of another site.
    Link {
        site: u32,
        page: u32,
    },
}

pub(super) struct Visit {
    /// Position among the sites.
    pub(super) site: u32,
    pub(super) day: i32,
    pub(super) user: User,
    pub(super) origin: Origin,
}

/// A page of a site; a few addresses carry a number that makes them unlike all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) site: u32,
    pub(super) rank: u32,
    pub(super) session: Option<u32>,
}

/// A row, but for what all rows of its visit share.
pub(super) struct View {
    /// Position among the visits of the batch.
    pub(super) visit: u32,
    pub(super) watch_id: i64,
    /// Seconds since 1970-01-01.
    pub(super) time: i64,
    pub(super) page: Page,
    /// The page of the same site that led here; none at the start of a visit.
    pub(super) previous: Option<Page>,
    /// For the small numbers that nothing else depends on.
    pub(super) bits: u64,
    pub(super) more_bits: u64,
}

/// The rows of a batch.
pub(super) struct Views {
    pub(super) visits: Vec<Visit>,
    pub(super) views: Vec<View>,
}

impl Views {
    pub(super) fn with_capacity(rows: usize) -> Self {
        Self { visits: Vec::with_capacity(rows / 2), views: Vec::with_capacity(rows) }
    }
}

/// Draws visits; holds how many users and phrases there are to draw from.
pub(super) struct Visits {
    users: Users,
    user_count: u32,
    phrase_count: u32,
    site_count: u32,
}

impl Visits {
    pub(super) fn new(row_count: u64) -> Self {
        let share = |divisor: u64| u32::try_from(row_count / divisor).unwrap_or(u32::MAX);
        Self {
            users: Users::new(),
            user_count: share(4).max(2_000),
            phrase_count: share(10).max(1_000),
            site_count: 500,
        }
    }

    /// Appends the rows of `stretch`, its visits in order of the user's identifier.
    pub(super) fn fill(&self, views: &mut Views, stretch: &Stretch, random: &mut Random) {
        let mut row = stretch.rows.start;
        for (user, view_count) in self.visitors(stretch.rows.end - stretch.rows.start, random) {
            let visit = Visit {
                site: stretch.site,
                day: stretch.day,
                user: self.users.user(user),
                origin: self.origin(random),
            };
            views.visits.push(visit);
            append_views(views, stretch, row..row + u64::from(view_count), random);
            row += u64::from(view_count);
        }
    }

    /// Ranks of users and how many pages each looks at, `row_count` together, in order of the identifier.
    fn visitors(&self, row_count: u64, random: &mut Random) -> Vec<(u32, u32)> {
        let mut visitors = Vec::new();
        let mut left = row_count as u32;
        while left > 0 {
            let view_count = (1 + random.skewed(VIEWS_MAX)).min(left);
            visitors.push((random.skewed(self.user_count), view_count));
            left -= view_count;
        }
        visitors.sort_by_key(|(user, _)| user_id(*user));
        visitors
    }

    fn origin(&self, random: &mut Random) -> Origin {
        let draw = random.unit();
        if draw < SEARCH_SHARE {
            let engine = SEARCH_ENGINES[random.skewed(SEARCH_ENGINES.len() as u32) as usize];
            Origin::Search { engine, phrase: random.skewed(self.phrase_count) }
        } else if draw < SEARCH_SHARE + ADVERTISEMENT_SHARE {
            Origin::Advertisement(ADVERTISERS[random.skewed(ADVERTISERS.len() as u32) as usize])
        } else if draw < SEARCH_SHARE + ADVERTISEMENT_SHARE + LINK_SHARE {
            Origin::Link { site: random.skewed(self.site_count), page: random.skewed(10_000) }
        } else {
            Origin::Direct
        }
    }
}

/// Appends the page views of the newest visit.
fn append_views(views: &mut Views, stretch: &Stretch, rows: std::ops::Range<u64>, random: &mut Random) {
    let visit = views.visits.len() as u32 - 1;
    let midnight = i64::from(stretch.day) * i64::from(DAY_SECONDS);
    let mut second = random.below(DAY_SECONDS);
    let mut previous = None;
    for row in rows {
        let page = random_page(stretch, random);
        views.views.push(View {
            visit,
            watch_id: (splitmix(row + 1) >> 1) as i64,
            time: midnight + i64::from(second),
            page,
            previous,
            bits: random.next_u64(),
            more_bits: random.next_u64(),
        });
        previous = Some(page);
        second = (second + 1 + random.skewed(600)).min(DAY_SECONDS - 1);
    }
}

fn random_page(stretch: &Stretch, random: &mut Random) -> Page {
    let site = stretch.site;
    if random.chance(HOME_SHARE) {
        return Page { site, rank: 0, session: None };
    }
    let rank = 1 + random.skewed(stretch.page_count);
    Page { site, rank, session: random.chance(0.08).then(|| random.next_u64() as u32) }
}
