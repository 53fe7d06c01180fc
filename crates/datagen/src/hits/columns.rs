//! The 105 columns: names and types of ClickBench, and what each shows of a page view.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, Date32Array, Int16Array, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::row::Row;
use super::sites::Sites;
use super::texts;
use super::visits::Views;
use crate::words::TextColumn;

const MICROSECONDS: i64 = 1_000_000;

/// By the rank of a user's system and browser.
const SYSTEMS: [i16; 8] = [44, 2, 3, 107, 42, 10, 4, 0];
const BROWSERS: [i16; 8] = [3, 2, 7, 5, 82, 50, 42, 4];
const BROWSER_BUILDS: [&str; 8] = ["0", "1", "9", "D@", "7_", "0.1", "11", "3"];
const FLASH_BUILDS: [&str; 4] = ["700", "800", "", "202"];
const COLOURS: [&str; 16] = ["F", "F", "F", "F", "F", "F", "F", "F", "F", "5", "5", "5", "5", "T", "T", "D"];
const LANGUAGES: [&str; 8] = ["ru", "ru", "ru", "ru", "ru", "en", "uk", "kk"];
const COUNTRIES: [&str; 8] = ["RU", "RU", "RU", "RU", "RU", "US", "UA", "KZ"];

struct Column {
    name: &'static str,
    values: Values,
}

/// How a column's values come from rows; the variant says their type.
enum Values {
    Small(fn(&Row<'_>) -> i16),
    Int(fn(&Row<'_>) -> i32),
    Long(fn(&Row<'_>) -> i64),
    /// Days since 1970-01-01.
    Day(fn(&Row<'_>) -> i32),
    /// Seconds since 1970-01-01.
    Time(fn(&Row<'_>) -> i64),
    /// Text that is declared never to be NULL.
    KeyWord(fn(&Row<'_>) -> &'static str),
    Word(fn(&Row<'_>) -> &'static str),
    Text(fn(&Row<'_>, &mut String)),
}

const fn small(name: &'static str, value: fn(&Row<'_>) -> i16) -> Column {
    Column { name, values: Values::Small(value) }
}

const fn int(name: &'static str, value: fn(&Row<'_>) -> i32) -> Column {
    Column { name, values: Values::Int(value) }
}

const fn long(name: &'static str, value: fn(&Row<'_>) -> i64) -> Column {
    Column { name, values: Values::Long(value) }
}

const fn day(name: &'static str, value: fn(&Row<'_>) -> i32) -> Column {
    Column { name, values: Values::Day(value) }
}

const fn time(name: &'static str, value: fn(&Row<'_>) -> i64) -> Column {
    Column { name, values: Values::Time(value) }
}

const fn key_word(name: &'static str, value: fn(&Row<'_>) -> &'static str) -> Column {
    Column { name, values: Values::KeyWord(value) }
}

const fn word(name: &'static str, value: fn(&Row<'_>) -> &'static str) -> Column {
    Column { name, values: Values::Word(value) }
}

const fn text(name: &'static str, write: fn(&Row<'_>, &mut String)) -> Column {
    Column { name, values: Values::Text(write) }
}

/// What no query reads is mostly constant, as in the real table.
const COLUMNS: [Column; 105] = [
    long("WatchID", |row| row.view.watch_id),
    small("JavaEnable", |row| row.of_user(0, 10).min(1)),
    text("Title", |row, text| texts::push_title(text, row.domain(), row.view.page)),
    small("GoodEvent", |_| 1),
    time("EventTime", |row| row.view.time),
    day("EventDate", |row| row.visit.day),
    int("CounterID", |row| row.site_number() as i32),
    int("ClientIP", |row| row.visit.user.address),
    int("RegionID", |row| row.visit.user.region),
    long("UserID", |row| row.visit.user.id),
    small("CounterClass", |row| (row.visit.site % 3) as i16 - 1),
    small("OS", |row| SYSTEMS[row.visit.user.system as usize]),
    small("UserAgent", |row| BROWSERS[row.visit.user.browser as usize]),
    text("URL", |row, text| texts::push_address(text, row.domain(), row.view.page)),
    text("Referer", |row, text| row.push_referrer(text)),
    small("IsRefresh", |row| row.one_in(0, 8)),
    small("RefererCategoryID", |row| (row.of_view(16, 100) - 80).max(0) * 150),
    int("RefererRegionID", |row| i32::from((row.of_view(16, 100) - 70).max(0))),
    small("URLCategoryID", |row| ((row.visit.site % 5) * 2_000) as i16),
    int("URLRegionID", |row| (row.visit.site % 300) as i32),
    small("ResolutionWidth", |row| row.visit.user.screen.0),
    small("ResolutionHeight", |row| row.visit.user.screen.1),
    small("ResolutionDepth", |row| if row.of_user(8, 10) == 0 { 32 } else { 37 }),
    small("FlashMajor", |row| 10 + row.of_user(12, 5)),
    small("FlashMinor", |row| row.of_user(16, 9)),
    word("FlashMinor2", |row| FLASH_BUILDS[row.of_user(20, 4) as usize]),
    small("NetMajor", |row| row.of_user(24, 4)),
    small("NetMinor", |row| row.of_user(28, 5)),
    small("UserAgentMajor", |row| 5 + row.of_user(32, 25)),
    key_word("UserAgentMinor", |row| BROWSER_BUILDS[row.visit.user.browser as usize]),
    small("CookieEnable", |row| row.of_user(36, 50).min(1)),
    small("JavascriptEnable", |row| row.of_user(40, 90).min(1)),
    small("IsMobile", |row| row.visit.user.phone.is_some().into()),
    small("MobilePhone", |row| row.visit.user.phone.map_or(0, |(maker, _)| maker as i16 + 1)),
    text("MobilePhoneModel", |row, text| row.push_phone(text)),
    word("Params", |_| ""),
    int("IPNetworkID", |row| row.visit.user.address.unsigned_abs() as i32 >> 9),
    small("TraficSourceID", |row| row.source()),
    small("SearchEngineID", |row| row.search().map_or(0, |(engine, _)| engine)),
    text("SearchPhrase", |row, text| row.push_phrase(text)),
    small("AdvEngineID", |row| row.advertiser()),
    small("IsArtifical", |_| 0),
    small("WindowClientWidth", |row| (row.visit.user.screen.0 - row.of_view(24, 300)).max(0)),
    small("WindowClientHeight", |row| (row.visit.user.screen.1 - row.of_view(40, 400)).max(0)),
    small("ClientTimeZone", |row| -60 * row.visit.user.time_zone),
    time("ClientEventTime", |row| row.view.time + i64::from(row.of_user(44, 120)) - 60),
    small("SilverlightVersion1", |row| 5 * row.of_user(48, 2)),
    small("SilverlightVersion2", |row| row.of_user(48, 2)),
    int("SilverlightVersion3", |row| 50_918 * i32::from(row.of_user(48, 2))),
    small("SilverlightVersion4", |_| 0),
    word("PageCharset", |row| if row.visit.site % 3 == 0 { "windows-1251" } else { "utf-8" }),
    int("CodeVersion", |row| 1_600 + i32::from(row.of_user(52, 30))),
    small("IsLink", |row| row.one_in(4, 10)),
    small("IsDownload", |row| row.one_in(8, 100)),
    small("IsNotBounce", |row| row.view.previous.is_some().into()),
    long("FUniqID", |row| row.visit.user.bits as i64),
    text("OriginalURL", |row, text| row.push_original_address(text)),
    int("HID", |row| row.view.more_bits as i32),
    small("IsOldCounter", |_| 0),
    small("IsEvent", |row| row.one_in(12, 50)),
    small("IsParameter", |row| row.one_in(20, 200)),
    small("DontCountHits", |row| row.one_in(28, 20)),
    small("WithHash", |row| row.view.page.session.is_some().into()),
    key_word("HitColor", |row| COLOURS[row.of_view(32, 16) as usize]),
    time("LocalEventTime", |row| row.view.time + 3_600 * i64::from(row.visit.user.time_zone)),
    small("Age", |row| [0, 16, 22, 31, 39, 55][row.of_user(2, 6) as usize]),
    small("Sex", |row| row.of_user(6, 3)),
    small("Income", |row| row.of_user(10, 5)),
    small("Interests", |row| row.of_user(14, 32_000)),
    small("Robotness", |row| (row.of_user(18, 100) - 95).max(0)),
    int("RemoteIP", |row| row.visit.user.address ^ i32::from(row.of_user(22, 4))),
    int("WindowName", |row| i32::from(row.of_view(36, 3)) - 1),
    int("OpenerName", |row| i32::from((row.of_view(44, 20) - 18).max(0))),
    small("HistoryLength", |row| row.of_view(46, 60)),
    word("BrowserLanguage", |row| LANGUAGES[row.of_user(26, 8) as usize]),
    word("BrowserCountry", |row| COUNTRIES[row.of_user(30, 8) as usize]),
    word("SocialNetwork", |_| ""),
    word("SocialAction", |_| ""),
    small("HTTPError", |_| 0),
    int("SendTiming", |row| row.milliseconds(0)),
    int("DNSTiming", |row| row.milliseconds(8)),
    int("ConnectTiming", |row| row.milliseconds(16)),
    int("ResponseStartTiming", |row| row.milliseconds(24)),
    int("ResponseEndTiming", |row| row.milliseconds(32)),
    int("FetchTiming", |row| row.milliseconds(40)),
    small("SocialSourceNetworkID", |row| 3 * row.one_in(34, 300)),
    word("SocialSourcePage", |_| ""),
    long("ParamPrice", |row| i64::from(row.one_in(46, 500)) * 9_900),
    word("ParamOrderID", |_| ""),
    word("ParamCurrency", |_| "RUB"),
    small("ParamCurrencyID", |_| 643),
    word("OpenstatServiceName", |row| row.if_advertised("direct.yandex.ru")),
    word("OpenstatCampaignID", |_| ""),
    word("OpenstatAdID", |_| ""),
    word("OpenstatSourceID", |_| ""),
    word("UTMSource", |row| row.if_advertised("direct")),
    word("UTMMedium", |row| row.if_advertised("cpc")),
    word("UTMCampaign", |row| row.if_advertised("summer")),
    word("UTMContent", |_| ""),
    word("UTMTerm", |_| ""),
    word("FromTag", |_| ""),
    small("HasGCLID", |row| i16::from(row.advertiser() == 3)),
    long("RefererHash", |row| row.referrer_hash()),
    long("URLHash", |row| texts::address_hash(row.site_number(), row.view.page)),
    int("CLID", |row| 1_000 * i32::from(row.one_in(48, 100))),
];

pub(super) fn schema() -> SchemaRef {
    let fields = COLUMNS.iter().map(|column| {
        let is_nullable = matches!(column.values, Values::Word(_) | Values::Text(_));
        Field::new(column.name, column.values.data_type(), is_nullable)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// The rows of a batch as columns.
pub(super) fn batch(views: &Views, sites: &Sites) -> RecordBatch {
    let columns = COLUMNS.iter().map(|column| column.values.array(views, sites)).collect();
    RecordBatch::try_new(schema(), columns).expect("the columns follow the schema")
}

impl Values {
    fn data_type(&self) -> DataType {
        match self {
            Self::Small(_) => DataType::Int16,
            Self::Int(_) => DataType::Int32,
            Self::Long(_) => DataType::Int64,
            Self::Day(_) => DataType::Date32,
            Self::Time(_) => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::KeyWord(_) | Self::Word(_) | Self::Text(_) => DataType::Utf8View,
        }
    }

    fn array(&self, views: &Views, sites: &Sites) -> ArrayRef {
        let rows =
            views.views.iter().map(|view| Row { view, visit: &views.visits[view.visit as usize], sites });
        match self {
            Self::Small(value) => Arc::new(Int16Array::from_iter_values(rows.map(|row| value(&row)))),
            Self::Int(value) => Arc::new(Int32Array::from_iter_values(rows.map(|row| value(&row)))),
            Self::Long(value) => Arc::new(Int64Array::from_iter_values(rows.map(|row| value(&row)))),
            Self::Day(value) => Arc::new(Date32Array::from_iter_values(rows.map(|row| value(&row)))),
            Self::Time(value) => Arc::new(TimestampMicrosecondArray::from_iter_values(
                rows.map(|row| value(&row) * MICROSECONDS),
            )),
            Self::KeyWord(value) | Self::Word(value) => {
                Arc::new(StringViewArray::from_iter_values(rows.map(|row| value(&row))))
            }
            Self::Text(write) => {
                let mut column = TextColumn::with_capacity(views.views.len());
                rows.for_each(|row| column.push_with(|text| write(&row, text)));
                column.finish()
            }
        }
    }
}
