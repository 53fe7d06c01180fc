//! A row as the columns see it: a page view with its visit, and what follows from both.

use super::sites::Sites;
use super::texts;
use super::visits::{Origin, Page, View, Visit};

pub(super) struct Row<'a> {
    pub(super) view: &'a View,
    pub(super) visit: &'a Visit,
    pub(super) sites: &'a Sites,
}

impl Row<'_> {
    pub(super) fn domain(&self) -> &str {
        &self.sites.site(self.visit.site).domain
    }

    /// `CounterID`.
    pub(super) fn site_number(&self) -> u32 {
        self.sites.site(self.visit.site).number
    }

    /// A number below `bound` that all rows of the user have, from the bits at `place`.
    pub(super) fn of_user(&self, place: u32, bound: i16) -> i16 {
        number_at(self.visit.user.bits, place, bound)
    }

    /// A number below `bound` of this row alone.
    pub(super) fn of_view(&self, place: u32, bound: i16) -> i16 {
        number_at(self.view.bits, place, bound)
    }

    /// 1 in one of `count` rows, else 0.
    pub(super) fn one_in(&self, place: u32, count: i16) -> i16 {
        i16::from(self.of_view(place, count) == 0)
    }

    /// Mostly short, and up to four seconds.
    pub(super) fn milliseconds(&self, place: u32) -> i32 {
        let uniform = i32::from(number_at(self.view.more_bits, place, 2_048));
        uniform * uniform / 1_024
    }

    /// The engine and the rank of the phrase, where the visit comes from a search.
    pub(super) fn search(&self) -> Option<(i16, u32)> {
        match self.visit.origin {
            Origin::Search { engine, phrase } => Some((engine, phrase)),
            _ => None,
        }
    }

    pub(super) fn advertiser(&self) -> i16 {
        match self.visit.origin {
            Origin::Advertisement(engine) => engine,
            _ => 0,
        }
    }

    pub(super) fn if_advertised(&self, word: &'static str) -> &'static str {
        if self.advertiser() == 0 { "" } else { word }
    }

    /// `TraficSourceID`: -1 within the site, 6 from a saved page, the others by where the visit comes from.
    pub(super) fn source(&self) -> i16 {
        match self.visit.origin {
            _ if self.view.previous.is_some() => -1,
            Origin::Direct if self.one_in(52, 10) == 1 => 6,
            Origin::Direct => 0,
            Origin::Link { .. } => 1,
            Origin::Search { .. } => 2,
            Origin::Advertisement(_) => 3,
        }
    }

    pub(super) fn push_referrer(&self, text: &mut String) {
        match (self.referring_page(), self.visit.origin) {
            (Some(page), _) => texts::push_address(text, &self.sites.site(page.site).domain, page),
            (None, Origin::Search { engine, phrase }) => texts::push_search(text, engine, phrase),
            (None, Origin::Advertisement(_)) => text.push_str("http://an.yandex.ru/count/"),
            (None, _) => {}
        }
    }

    /// 0 where no page of a site led here.
    pub(super) fn referrer_hash(&self) -> i64 {
        self.referring_page().map_or(0, |page| texts::referrer_hash(self.sites.site(page.site).number, page))
    }

    fn referring_page(&self) -> Option<Page> {
        match self.visit.origin {
            _ if self.view.previous.is_some() => self.view.previous,
            Origin::Link { site, page } => Some(Page { site, rank: page, session: None }),
            _ => None,
        }
    }

    pub(super) fn push_phone(&self, text: &mut String) {
        if let Some((maker, model)) = self.visit.user.phone {
            text.push_str(texts::MAKERS[maker as usize]);
            if model > 0 {
                texts::push_number(text, model);
            }
        }
    }

    pub(super) fn push_phrase(&self, text: &mut String) {
        if let Some((_, phrase)) = self.search() {
            texts::push_phrase(text, phrase);
        }
    }

    /// The address before a redirection, which one page view in eight went through.
    pub(super) fn push_original_address(&self, text: &mut String) {
        if self.one_in(40, 8) == 1 {
            texts::push_address(text, self.domain(), self.view.page);
        }
    }
}

/// A number below `bound` from the 16 bits of `bits` that begin at `place`, around its end.
fn number_at(bits: u64, place: u32, bound: i16) -> i16 {
    let sixteen = bits.rotate_right(place) & 0xffff;
    ((sixteen * bound as u64) >> 16) as i16
}
