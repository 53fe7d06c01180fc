//! Choosing how a table is encoded by trying it on a sample.
//!
//! ```text
//!   for each row group size, for each column:
//!     1. encode the sample with every light encoding that can apply
//!     2. put the strongest codec on the two smallest of them and on plain; put the other codecs on the
//!        smallest light encoding and on the one that is smallest under the strongest codec
//!        (a codec that saves less than 1 % is not considered)
//!     3. decode each to Arrow, again and again within 50 ms a column: the best time counts
//!     4. smallest: the fewest bytes win; of those within 1 %, the fastest to decode
//!        fastest:  the lowest max(stored bytes / storage rate, decoding / cores) wins; of those within 3 %,
//!                  the fewest bytes; symbols (FSST) come behind all others unless they save a fifth of the bytes
//!                  and more time of reading than they take of decoding
//!   the row group size with the lowest sum over the columns wins
//! ```
//!
//! Fastest takes reading as overlapped with decoding, and decoding as spread over all cores. Conversion to
//! Arrow is timed too, since a scan pays for it and it differs: dictionaries are checked once an entry.
//!
//! Bound: `rows_max` rows are looked at, each column encoded in at most 7 light ways and 9 with a codec for
//! each row group size; the encoded forms of as many columns as there are cores are held at once.
//! After Boeschen, Ziegler and Binnig: GOLAP, A GPU-in-Data-Path Architecture for High-Speed OLAP, 2024, table 1:
//! the choice of codec and chunk size from a sample.

mod slice;

use std::time::{Duration, Instant};

use pelton_chunk::{
    ChunkView, Codec, Column, DEFAULT_PAGE_ROWS, Encoding, Transform, best_light, candidates, encode_chunk,
};
use pelton_error::{Error, ErrorKind, Result, ResultExt};
use pelton_zone::ZoneOptions;

use self::slice::slice;
use crate::convert::column_to_arrow;
use crate::plan::{Candidate, ColumnChoice, DEFAULT_ROW_GROUP_ROWS, Objective, TablePlan};
use crate::schema::{ColumnSchema, TableSchema};

/// Light encodings that codecs are put on, besides plain.
const LIGHT_UNDER_CODECS: usize = 2;
/// The codec put on the most light encodings is the first of these that is wanted.
const STRONGEST_FIRST: [Codec; 4] = [Codec::Zstd, Codec::Deflate, Codec::Lz4, Codec::Snappy];
/// Time spent on timing one column, once every encoding was decoded at least once.
const TIMING_BUDGET: Duration = Duration::from_millis(50);
/// Decodings of one encoded form that are timed at most: the best time of small ones is found by then, and a
/// table of a few rows is not kept waiting.
const TIMING_REPEATS_MAX: u32 = 50;
/// Times this close are ties, which the fewest bytes win.
const TIE_OF_TIME: f64 = 1.03;
/// Sizes this close are ties, which the fastest to decode wins.
const TIE_OF_BYTES: f64 = 1.01;
/// What symbols take at most of what the smallest other encoding under the same codec takes: less is not worth that
/// every reader decodes (docs/decisions/0024-symbols-for-texts.md).
const SYMBOLS_SHARE_MAX: f64 = 0.8;

/// Rows taken from a table before it is written.
#[derive(Debug, Clone)]
pub struct Sample {
    /// Of the table.
    pub schema: TableSchema,
    /// Stretches of neighbouring rows, each with one column for each of the schema.
    pub runs: Vec<Vec<Column>>,
}

/// What to try, and what for.
#[derive(Debug, Clone)]
pub struct SampleOptions {
    /// What the choice is for.
    pub objective: Objective,
    /// Codecs to try; [`Codec::None`] is what light encodings are.
    pub codecs: Vec<Codec>,
    /// Where tables stay in memory once they are read, for [`Objective::Fastest`]: a codec is only taken where it would pay
    /// over storage of this rate, bytes a second, since every scan decodes what one scan reads.
    pub codec_bytes_per_s: Option<u64>,
    /// Row group sizes to try; at least one.
    pub row_group_rows: Vec<u32>,
    /// Rows a page.
    pub page_rows: u32,
    /// What zone maps will hold.
    pub zone: ZoneOptions,
    /// Cores that will decode at once; also the threads that try encodings.
    pub cores: usize,
    /// The most rows looked at; whole runs, spread evenly over those given.
    pub rows_max: u64,
    /// Use this transform and layout for every column that can have it.
    pub force_encoding: Option<Encoding>,
    /// Use this codec for every column.
    pub force_codec: Option<Codec>,
}

impl Default for SampleOptions {
    fn default() -> Self {
        Self {
            objective: Objective::Smallest,
            codecs: vec![Codec::None, Codec::Lz4, Codec::Snappy, Codec::Zstd, Codec::Deflate],
            codec_bytes_per_s: None,
            row_group_rows: vec![DEFAULT_ROW_GROUP_ROWS],
            page_rows: DEFAULT_PAGE_ROWS,
            zone: ZoneOptions::default(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            rows_max: 2 * u64::from(DEFAULT_ROW_GROUP_ROWS),
            force_encoding: None,
            force_codec: None,
        }
    }
}

/// Chooses an encoding for every column and the size of row groups.
pub fn choose(sample: &Sample, options: &SampleOptions) -> Result<TablePlan> {
    let columns = &sample.schema.columns;
    assert!(sample.runs.iter().all(|run| run.len() == columns.len()));
    if options.row_group_rows.is_empty() || (options.codecs.is_empty() && options.force_codec.is_none()) {
        return Err(Error::invalid_input(
            "nothing to choose from: name at least one row group size and one codec",
        ));
    }
    let mut plan = TablePlan {
        columns: columns.iter().map(untried).collect(),
        row_group_rows: options.row_group_rows[0],
        page_rows: options.page_rows,
        zone: options.zone,
    };
    plan.validate()?;
    let runs = spread_runs(&sample.runs, options.rows_max);
    if runs.is_empty() {
        return Ok(plan);
    }
    let mut tried = Vec::new();
    for &row_group_rows in &options.row_group_rows {
        let trial = Trial { options, row_group_rows, runs: &runs };
        tried.push((row_group_rows, trial.try_columns(columns)?));
    }
    let best = best_row_group_size(&tried);
    let (row_group_rows, choices) = tried.swap_remove(best);
    plan.row_group_rows = row_group_rows;
    plan.columns = choices;
    for (_, others) in tried {
        for (choice, other) in plan.columns.iter_mut().zip(others) {
            choice.candidates.extend(other.candidates.into_iter().take(1));
        }
    }
    Ok(plan)
}

/// What a column gets that nothing is known of.
fn untried(column: &ColumnSchema) -> ColumnChoice {
    ColumnChoice { forced: false, ..ColumnChoice::fixed(&column.name, Encoding::PLAIN) }
}

/// Whole runs, evenly spread over those there are, of about `rows_max` rows; one run at least.
fn spread_runs(runs: &[Vec<Column>], rows_max: u64) -> Vec<&[Column]> {
    let filled: Vec<&[Column]> = runs
        .iter()
        .map(Vec::as_slice)
        .filter(|run| run.first().is_some_and(|column| !column.is_empty()))
        .collect();
    let total: u64 = filled.iter().map(|run| run[0].len() as u64).sum();
    if total <= rows_max || filled.is_empty() {
        return filled;
    }
    let wanted = ((filled.len() as u64 * rows_max).div_ceil(total) as usize).clamp(1, filled.len());
    (0..wanted).map(|index| filled[index * filled.len() / wanted]).collect()
}

/// The position of the size with the lowest cost over all columns; within 3 % of it, the fewest bytes.
fn best_row_group_size(tried: &[(u32, Vec<ColumnChoice>)]) -> usize {
    let totals: Vec<(f64, u64)> = tried
        .iter()
        .map(|(_, choices)| {
            let chosen = choices.iter().filter_map(|choice| choice.candidates.first());
            chosen.fold((0.0, 0), |(cost, bytes), best| (cost + best.cost, bytes + best.stored_bytes))
        })
        .collect();
    let lowest = totals.iter().map(|(cost, _)| *cost).fold(f64::INFINITY, f64::min);
    (0..totals.len())
        .filter(|&index| totals[index].0 <= lowest * TIE_OF_TIME)
        .min_by_key(|&index| totals[index].1)
        .expect("there is a size, and one has the lowest cost")
}

/// One row group size tried on the runs.
struct Trial<'a> {
    options: &'a SampleOptions,
    row_group_rows: u32,
    runs: &'a [&'a [Column]],
}

/// The sample's chunks of one column in one encoding.
struct Encoded {
    encoding: Encoding,
    /// Each with its rows.
    chunks: Vec<(u32, Vec<u8>)>,
}

impl Encoded {
    fn stored_bytes(&self) -> u64 {
        self.chunks.iter().map(|(_, chunk)| chunk.len() as u64).sum()
    }
}

/// The two smallest and plain, of light encodings that are sorted by size.
fn promising(light: &[Encoded]) -> impl Iterator<Item = Encoding> {
    let ranked = light.iter().enumerate();
    ranked
        .filter(|(rank, encoded)| *rank < LIGHT_UNDER_CODECS || encoded.encoding == Encoding::PLAIN)
        .map(|(_, encoded)| encoded.encoding)
}

impl Trial<'_> {
    /// Encodes as many columns at once as there are cores, then times them one after the other.
    fn try_columns(&self, columns: &[ColumnSchema]) -> Result<Vec<ColumnChoice>> {
        let indexes: Vec<usize> = (0..columns.len()).collect();
        let mut choices = Vec::with_capacity(columns.len());
        for batch in indexes.chunks(self.options.cores.max(1)) {
            let encoded: Vec<_> = std::thread::scope(|scope| {
                let threads: Vec<_> = batch
                    .iter()
                    .map(|&index| scope.spawn(move || self.encode(&self.pieces(index))))
                    .collect();
                threads.into_iter().map(|thread| thread.join().expect("encoding does not panic")).collect()
            });
            for (&index, encoded) in batch.iter().zip(encoded) {
                let doing = || format!("trying encodings for column '{}'", columns[index].name);
                choices
                    .push(self.choose_among(encoded.context(doing)?, index, &columns[index]).context(doing)?);
            }
        }
        Ok(choices)
    }

    /// The column's sample in chunks of at most a row group.
    fn pieces(&self, index: usize) -> Vec<Column> {
        let step = self.row_group_rows as usize;
        self.runs
            .iter()
            .flat_map(|run| {
                let column = &run[index];
                (0..column.len())
                    .step_by(step)
                    .map(move |start| slice(column, start..column.len().min(start + step)))
            })
            .collect()
    }

    /// Steps 1 and 2: all light encodings, and codecs on the best of them.
    fn encode(&self, pieces: &[Column]) -> Result<Vec<Encoded>> {
        let mut light = self
            .light_encodings(pieces)
            .into_iter()
            .map(|encoding| self.encode_as(pieces, encoding))
            .collect::<Result<Vec<_>>>()?;
        light.sort_by_key(Encoded::stored_bytes);
        let codecs =
            self.options.force_codec.map_or_else(|| self.options.codecs.clone(), |codec| vec![codec]);
        let mut all = Vec::new();
        if let Some(&strongest) = STRONGEST_FIRST.iter().find(|codec| codecs.contains(codec)) {
            let tried = self.encode_under(pieces, promising(&light), strongest)?;
            let smallest =
                tried.iter().min_by_key(|encoded| encoded.stored_bytes()).expect("a light encoding is");
            let mut under = vec![light[0].encoding, smallest.encoding.with_codec(Codec::None)];
            under.dedup();
            all.extend(tried);
            for &codec in codecs.iter().filter(|codec| ![Codec::None, strongest].contains(codec)) {
                all.extend(self.encode_under(pieces, under.iter().copied(), codec)?);
            }
        }
        if codecs.contains(&Codec::None) {
            let saves = |encoded: &Encoded| {
                let of_same =
                    |other: &&Encoded| other.encoding.with_codec(encoded.encoding.codec) == encoded.encoding;
                let without = light.iter().find(of_same).map_or(0, Encoded::stored_bytes);
                encoded.stored_bytes() as f64 * TIE_OF_BYTES <= without as f64
            };
            all.retain(saves);
            all.extend(light);
        }
        Ok(all)
    }

    fn encode_under(
        &self,
        pieces: &[Column],
        light: impl Iterator<Item = Encoding>,
        codec: Codec,
    ) -> Result<Vec<Encoded>> {
        light.map(|encoding| self.encode_as(pieces, encoding.with_codec(codec))).collect()
    }

    fn light_encodings(&self, pieces: &[Column]) -> Vec<Encoding> {
        if let Some(forced) = self.forced_encoding(pieces) {
            return vec![forced];
        }
        let mut found: Vec<Encoding> = pieces.iter().flat_map(candidates).collect();
        found.sort_unstable();
        found.dedup();
        // Chunks of one value become constant whatever is chosen, so it is a choice only where all are.
        if found.len() > 1 {
            found.retain(|encoding| *encoding != Encoding::CONSTANT);
        }
        found
    }

    fn forced_encoding(&self, pieces: &[Column]) -> Option<Encoding> {
        let ty = pieces.first()?.values.physical_type();
        let forced = self.options.force_encoding.filter(|encoding| encoding.applies_to(ty))?;
        Some(forced.with_codec(Codec::None))
    }

    /// As the writer does: a chunk that cannot have the encoding gets the best light one.
    fn encode_as(&self, pieces: &[Column], encoding: Encoding) -> Result<Encoded> {
        let page_rows = self.options.page_rows;
        let encode = |piece: &Column| match encode_chunk(piece, encoding, page_rows) {
            Err(error) if *error.kind() == ErrorKind::Unsupported => {
                let (light, _) = best_light(piece, page_rows)?;
                encode_chunk(piece, light.with_codec(encoding.codec), page_rows)
            }
            other => other,
        };
        let chunks = pieces.iter().map(|piece| Ok((piece.len() as u32, encode(piece)?)));
        Ok(Encoded { encoding, chunks: chunks.collect::<Result<_>>()? })
    }

    /// Steps 3 and 4 for one column.
    fn choose_among(
        &self,
        encoded: Vec<Encoded>,
        index: usize,
        column: &ColumnSchema,
    ) -> Result<ColumnChoice> {
        let rows: u64 = self.runs.iter().map(|run| run[index].len() as u64).sum();
        let raw_bytes: u64 = self.runs.iter().map(|run| run[index].values.raw_bytes()).sum();
        let budget = TIMING_BUDGET / encoded.len().max(1) as u32;
        let mut candidates = Vec::with_capacity(encoded.len());
        for encoded in &encoded {
            let seconds = decode_seconds(encoded, column, budget)?;
            candidates.push(Candidate {
                encoding: encoded.encoding,
                row_group_rows: self.row_group_rows,
                stored_bytes: encoded.stored_bytes(),
                decode_bytes_per_s: (raw_bytes as f64 / seconds) as u64,
                cost: self.cost(encoded.stored_bytes(), seconds),
            });
        }
        rank(&mut candidates, self.options.objective);
        self.put_back_codecs(&mut candidates, raw_bytes);
        self.put_back_symbols(&mut candidates, raw_bytes);
        let is_forced = self.options.force_encoding.is_some_and(|forced| {
            let chosen = candidates[0].encoding;
            (forced.transform, forced.layout) == (chosen.transform, chosen.layout)
        });
        Ok(ColumnChoice {
            column: column.name.clone(),
            encoding: candidates[0].encoding,
            forced: is_forced,
            sample_rows: rows,
            sample_raw_bytes: raw_bytes,
            candidates,
        })
    }

    /// Moves what has a codec that does not pay behind all other `candidates`, where tables stay in memory: what it saves of
    /// the best without one has to be worth the time to decode it.
    fn put_back_codecs(&self, candidates: &mut Vec<Candidate>, raw_bytes: u64) {
        let (Objective::Fastest { .. }, Some(bytes_per_s)) =
            (self.options.objective, self.options.codec_bytes_per_s)
        else {
            return;
        };
        let is_light =
            |candidate: &&Candidate| candidate.encoding.codec == Codec::None && !has_symbols(candidate);
        let Some(light) = candidates.iter().find(is_light).cloned() else { return };
        let pays = |candidate: &Candidate| {
            let saved_bytes = light.stored_bytes as f64 - candidate.stored_bytes as f64;
            let more_seconds = self.seconds(candidate, raw_bytes) - self.seconds(&light, raw_bytes);
            candidate.encoding.codec == Codec::None || more_seconds <= saved_bytes / bytes_per_s.max(1) as f64
        };
        let (mut paying, others): (Vec<Candidate>, Vec<Candidate>) = candidates.drain(..).partition(pays);
        // The best may have led with one that does not pay.
        rank(&mut paying, self.options.objective);
        candidates.extend(paying.into_iter().chain(others));
    }

    /// How long all cores decode so many bytes.
    fn seconds(&self, of: &Candidate, raw_bytes: u64) -> f64 {
        raw_bytes as f64 / of.decode_bytes_per_s.max(1) as f64 / self.options.cores.max(1) as f64
    }

    /// Moves symbols that are not worth it behind all other `candidates`, where a scan is to be fast: whether its bytes
    /// come from the storage that the objective assumes or are in memory already, it must not be the slower for them by
    /// more than they save.
    fn put_back_symbols(&self, candidates: &mut [Candidate], raw_bytes: u64) {
        let Objective::Fastest { storage_bytes_per_s } = self.options.objective else { return };
        let others: Vec<Candidate> =
            candidates.iter().filter(|candidate| !has_symbols(candidate)).cloned().collect();
        let is_worth_it = |symbols: &Candidate| {
            let of_codec = |codec| move |other: &&Candidate| other.encoding.codec == codec;
            let smallest =
                |codec| others.iter().filter(of_codec(codec)).min_by_key(|other| other.stored_bytes);
            let other = smallest(symbols.encoding.codec).or_else(|| smallest(Codec::None));
            other.is_none_or(|other| {
                let saved_bytes = other.stored_bytes as f64 - symbols.stored_bytes as f64;
                let saved_seconds = saved_bytes / storage_bytes_per_s.max(1) as f64;
                symbols.stored_bytes as f64 <= SYMBOLS_SHARE_MAX * other.stored_bytes as f64
                    && self.seconds(symbols, raw_bytes) - self.seconds(other, raw_bytes) <= saved_seconds
            })
        };
        candidates.sort_by_key(|candidate| has_symbols(candidate) && !is_worth_it(candidate));
    }

    fn cost(&self, stored_bytes: u64, decode_seconds: f64) -> f64 {
        match self.options.objective {
            Objective::Smallest => stored_bytes as f64,
            Objective::Fastest { storage_bytes_per_s } => {
                let reading = stored_bytes as f64 / storage_bytes_per_s.max(1) as f64;
                reading.max(decode_seconds / self.options.cores.max(1) as f64) * 1e9
            }
        }
    }
}

fn has_symbols(candidate: &Candidate) -> bool {
    candidate.encoding.transform == Transform::Fsst
}

/// Best first: by cost, but where several are as good as the lowest the tie decides who leads.
fn rank(candidates: &mut [Candidate], objective: Objective) {
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost).then(a.stored_bytes.cmp(&b.stored_bytes)));
    let tie = if objective == Objective::Smallest { TIE_OF_BYTES } else { TIE_OF_TIME };
    let lowest = candidates[0].cost;
    let tied = candidates.iter().take_while(|candidate| candidate.cost <= lowest * tie).count();
    let winner = (0..tied).min_by_key(|&index| match objective {
        Objective::Smallest => u64::MAX - candidates[index].decode_bytes_per_s,
        Objective::Fastest { .. } => candidates[index].stored_bytes,
    });
    candidates[..=winner.expect("the lowest ties with itself")].rotate_right(1);
}

/// The shortest time in which all chunks were decoded to Arrow on this core.
fn decode_seconds(encoded: &Encoded, column: &ColumnSchema, budget: Duration) -> Result<f64> {
    let started = Instant::now();
    let mut shortest = Duration::MAX;
    let mut repeats = 0;
    while repeats == 0 || (repeats < TIMING_REPEATS_MAX && started.elapsed() < budget) {
        repeats += 1;
        let pass = Instant::now();
        for (rows, chunk) in &encoded.chunks {
            let view = ChunkView::parse(chunk, column.logical.physical_type(), *rows)?;
            std::hint::black_box(column_to_arrow(view.decode()?, &column.logical)?);
        }
        shortest = shortest.min(pass.elapsed());
    }
    Ok(shortest.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests;
