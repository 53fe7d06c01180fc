//! Texts: addresses, titles and search phrases, each a function of what it names.

use super::users::MAKER_COUNT;
use super::visits::Page;
use crate::random::{Random, splitmix};

/// The page whose hash Q41 looks for is the first page of site 62; as a referrer it is that of Q40.
const SOUGHT_SITE: u32 = 62;
const SOUGHT_ADDRESS_HASH: i64 = 2_868_770_270_353_813_622;
const SOUGHT_REFERRER_HASH: i64 = 3_594_120_000_172_545_465;

const LATIN: [&str; 48] = [
    "auto",
    "news",
    "forum",
    "catalog",
    "shop",
    "photo",
    "video",
    "music",
    "games",
    "kino",
    "moda",
    "sport",
    "travel",
    "hotel",
    "dom",
    "sad",
    "dacha",
    "remont",
    "mebel",
    "odezhda",
    "obuv",
    "knigi",
    "recepty",
    "zdorovie",
    "deti",
    "rabota",
    "vakansii",
    "kvartiry",
    "arenda",
    "prodazha",
    "kupit",
    "cena",
    "otzyvy",
    "moskva",
    "piter",
    "kazan",
    "samara",
    "krasnodar",
    "online",
    "besplatno",
    "skachat",
    "smotret",
    "search",
    "index",
    "article",
    "product",
    "item",
    "profile",
];
const CYRILLIC: [&str; 48] = [
    "новости",
    "форум",
    "каталог",
    "магазин",
    "фото",
    "видео",
    "музыка",
    "игры",
    "кино",
    "мода",
    "спорт",
    "отдых",
    "гостиница",
    "дом",
    "сад",
    "дача",
    "ремонт",
    "мебель",
    "одежда",
    "обувь",
    "книги",
    "рецепты",
    "здоровье",
    "дети",
    "работа",
    "вакансии",
    "квартиры",
    "аренда",
    "продажа",
    "купить",
    "цена",
    "отзывы",
    "москва",
    "петербург",
    "казань",
    "самара",
    "краснодар",
    "онлайн",
    "бесплатно",
    "скачать",
    "смотреть",
    "погода",
    "карта",
    "расписание",
    "своими руками",
    "2013",
    "hd",
    "как сделать",
];
const ENDINGS: [&str; 4] = ["ru", "com", "ua", "net"];
pub(super) const MAKERS: [&str; MAKER_COUNT as usize] =
    ["iPad", "iPhone", "GT-I", "Lumia ", "Nexus ", "Xperia ", "Desire ", "Optimus "];

/// Shares of pages with the word in their address, as a host and otherwise, and in their title.
const GOOGLE_HOST_SHARE: f64 = 0.003;
const GOOGLE_WORD_SHARE: f64 = 0.003;
const GOOGLE_TITLE_SHARE: f64 = 0.01;

/// `www.kino-forum62.ru`, of no other site.
pub(super) fn domain(site_number: u32) -> String {
    let random = &mut Random::of(u64::from(site_number));
    let prefix = if random.chance(0.3) { "www." } else { "" };
    let (first, second) = (pick(&LATIN, random), pick(&LATIN, random));
    format!("{prefix}{first}-{second}{site_number}.{}", ENDINGS[random.skewed(4) as usize])
}

/// The address of a page.
pub(super) fn push_address(text: &mut String, domain: &str, page: Page) {
    text.push_str("http://");
    text.push_str(domain);
    text.push('/');
    if page.rank == 0 {
        return;
    }
    let random = &mut Random::of(page_key(page, ADDRESS_SALT));
    for _ in 0..3 + random.below(6) {
        text.push_str(pick(&LATIN, random));
        text.push(if random.chance(0.6) { '/' } else { '_' });
    }
    push_number(text, page.rank);
    text.push_str(".html");
    push_query(text, random);
    if let Some(session) = page.session {
        text.push_str("#sid=");
        push_number(text, session);
    }
}

fn push_query(text: &mut String, random: &mut Random) {
    if random.chance(GOOGLE_HOST_SHARE) {
        text.push_str("?from=http://www.google.ru/search");
    } else if random.chance(GOOGLE_WORD_SHARE) {
        text.push_str("?utm_source=google&utm_medium=cpc");
    } else if random.chance(0.4) {
        text.push_str("?category=");
        push_number(text, random.below(1_000));
        text.push_str("&order=");
        text.push_str(pick(&LATIN, random));
    }
}

/// The title of a page; every hundredth page has none.
pub(super) fn push_title(text: &mut String, domain: &str, page: Page) {
    let random = &mut Random::of(page_key(Page { session: None, ..page }, TITLE_SALT));
    if random.chance(0.01) {
        return;
    }
    push_words(text, 2 + random.below(5), random);
    text.push_str(if random.chance(GOOGLE_TITLE_SHARE) { " - Поиск в Google" } else { " - " });
    text.push_str(domain);
}

/// The search phrase with this rank.
pub(super) fn push_phrase(text: &mut String, rank: u32) {
    let random = &mut Random::of(splitmix(u64::from(rank)) ^ PHRASE_SALT);
    push_words(text, 1 + random.below(5), random);
    if random.chance(0.3) {
        text.push(' ');
        push_number(text, rank % 1_000);
    }
}

/// The address of a page of results of a search engine.
pub(super) fn push_search(text: &mut String, engine: i16, phrase: u32) {
    text.push_str(match engine {
        2 => "http://yandex.ru/yandsearch?text=",
        3 => "https://www.google.ru/search?q=",
        _ => "http://go.mail.ru/search?q=",
    });
    push_number(text, phrase);
}

/// What addresses have instead of themselves in `URLHash`.
pub(super) fn address_hash(site_number: u32, page: Page) -> i64 {
    if is_sought(site_number, page) { SOUGHT_ADDRESS_HASH } else { page_key(page, ADDRESS_HASH_SALT) as i64 }
}

/// The same in `RefererHash`.
pub(super) fn referrer_hash(site_number: u32, page: Page) -> i64 {
    if is_sought(site_number, page) {
        SOUGHT_REFERRER_HASH
    } else {
        page_key(page, REFERRER_HASH_SALT) as i64
    }
}

fn is_sought(site_number: u32, page: Page) -> bool {
    site_number == SOUGHT_SITE && page.rank == 0
}

/// What is drawn of a page for one purpose must not follow what is drawn for another.
const ADDRESS_SALT: u64 = 0x61;
const TITLE_SALT: u64 = 0x74;
const PHRASE_SALT: u64 = 0x70;
const ADDRESS_HASH_SALT: u64 = 0x68;
const REFERRER_HASH_SALT: u64 = 0x72;

/// The text of an address depends on its session only at its end, the hashes on all of it.
fn page_key(page: Page, salt: u64) -> u64 {
    let place = splitmix((u64::from(page.site) << 32 | u64::from(page.rank)).wrapping_add(salt << 56));
    match page.session {
        Some(session) if salt != ADDRESS_SALT => splitmix(place ^ u64::from(session)),
        _ => place,
    }
}

fn push_words(text: &mut String, count: u32, random: &mut Random) {
    for position in 0..count {
        if position > 0 {
            text.push(' ');
        }
        text.push_str(pick(&CYRILLIC, random));
    }
}

fn pick(words: &[&'static str; 48], random: &mut Random) -> &'static str {
    words[random.below(48) as usize]
}

/// Decimal digits, without the formatter, which would take half of the time of a text.
pub(super) fn push_number(text: &mut String, number: u32) {
    if number >= 10 {
        push_number(text, number / 10);
    }
    text.push(char::from(b'0' + (number % 10) as u8));
}
