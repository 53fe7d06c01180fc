//! Pairs of files, joined one after the other.
//!
//! ```text
//!   open pairs ──▶ next ─┬─ nothing can come of it            ──▶ the next
//!        ▲               ├─ the build side fits, or the other ──▶ HashJoinExec ──▶ rows
//!        │               ├─ both are dealt out again
//!        └───────────────┘
//!                        └─ dealing out does not help         ──▶ blocks: HashJoinExec for each ──▶ rows
//! ```
//!
//! A pair whose build side keeps nine tenths of its rows in one part when it is dealt out is one of few keys.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, new_null_array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{JoinType, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::StreamExt;

use super::start::{Built, Spilled, again, buffer_bytes, keys};
use super::{is_of_build_side, projected, table_bytes};
use crate::spilling::files::{Partitioner, Rows, Spill};
use crate::spilling::given::Given;

/// Files that a pair is dealt out to again.
const PARTS: usize = 16;
/// Times that a pair is dealt out; 64 * 16^3 parts are more than any disk has rows for.
const LEVELS_MAX: u64 = 4;

/// One lane's pairs, and how far it is.
pub(super) struct Lane {
    built: Arc<Built>,
    lane: usize,
    open: Vec<Work>,
    current: Option<Current>,
    schema: SchemaRef,
    rows_left: usize,
}

enum Work {
    Pair { sides: [Rows; 2], level: u64, is_of_few_keys: bool },
    Blocks(Box<Blocks>),
}

/// A build side that is joined by blocks.
struct Blocks {
    join: BlockJoin,
    build: SendableRecordBatchStream,
    probe: Rows,
    probe_spill: Spill,
}

/// How blocks are joined: by a join of rows that are the left side of the query's, or the right one.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BlockJoin {
    /// The query's own, or for a full join the left join that is in it.
    Left,
    /// The query's, with sides changed.
    Swapped,
    /// What is left of the probe side in a full join.
    RestOfProbe,
}

/// Rows that come, and what they have to become.
struct Current {
    rows: SendableRecordBatchStream,
    form: Form,
    rest: Option<Box<Blocks>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// All columns of the join.
    Whole,
    /// Those of the probe side, without a match.
    ProbeAlone,
}

impl Lane {
    /// Lane `lane` of `spilled`, which is that of `built`.
    pub(super) fn new(built: Arc<Built>, spilled: &Spilled, lane: usize) -> Self {
        // Of NOT IN a list with a NULL, nothing is true.
        let is_empty = spilled.join.null_aware && spilled.probe_nulls > 0;
        let pairs = spilled.pairs.iter().skip(lane).step_by(spilled.lanes);
        let open = pairs.map(|sides| Work::Pair { sides: sides.clone(), level: 1, is_of_few_keys: false });
        let open = if is_empty { Vec::new() } else { open.collect() };
        let (schema, fetch) = (spilled.whole_schema(), spilled.join.fetch());
        Self { built, lane, open, current: None, schema, rows_left: fetch.unwrap_or(usize::MAX) }
    }

    /// Its rows.
    pub(super) fn rows(self) -> SendableRecordBatchStream {
        let schema = Arc::clone(&self.schema);
        let rows = futures::stream::try_unfold(self, |mut lane| async move {
            Ok(lane.next().await?.map(|batch| (batch, lane)))
        });
        Box::pin(RecordBatchStreamAdapter::new(schema, rows))
    }

    fn spilled(&self) -> &Spilled {
        match self.built.as_ref() {
            Built::Spilled(spilled) => spilled,
            Built::Fits(_) => unreachable!("a lane is of what was spilled"),
        }
    }

    async fn next(&mut self) -> Result<Option<RecordBatch>> {
        while self.rows_left > 0 {
            if let Some(current) = &mut self.current {
                let form = current.form;
                match current.rows.next().await.transpose()? {
                    Some(batch) if batch.num_rows() > 0 => {
                        let batch = self.formed(batch, form)?;
                        let batch = batch.slice(0, batch.num_rows().min(self.rows_left));
                        self.rows_left -= batch.num_rows();
                        if batch.num_rows() > 0 {
                            return Ok(Some(batch));
                        }
                    }
                    Some(_) => {}
                    None => {
                        let rest = self.current.take().and_then(|current| current.rest);
                        self.open.extend(rest.map(Work::Blocks));
                        self.reservation().free();
                    }
                }
                continue;
            }
            match self.open.pop() {
                None => return Ok(None),
                Some(Work::Blocks(blocks)) => self.block(blocks).await?,
                Some(Work::Pair { sides, level, is_of_few_keys }) => {
                    self.pair(sides, level, is_of_few_keys).await?;
                }
            }
        }
        self.open.clear();
        self.current = None;
        Ok(None)
    }

    fn reservation(&self) -> &datafusion::execution::memory_pool::MemoryReservation {
        &self.spilled().reservations[self.lane]
    }

    /// `batch` as the query wants it.
    fn formed(&self, batch: RecordBatch, form: Form) -> Result<RecordBatch> {
        let spilled = self.spilled();
        let join = &spilled.join;
        let batch = match form {
            Form::Whole => batch,
            Form::ProbeAlone => {
                let nulls = join.left().schema();
                let nulls =
                    nulls.fields().iter().map(|field| new_null_array(field.data_type(), batch.num_rows()));
                let columns: Vec<ArrayRef> = nulls.chain(batch.columns().iter().cloned()).collect();
                RecordBatch::try_new(Arc::clone(join.join_schema()), columns)?
            }
        };
        let batch = match join.null_aware && spilled.probe_rows > 0 {
            true => self.without_null_keys(batch)?,
            false => batch,
        };
        projected(batch, join.projection.as_deref(), &self.schema)
    }

    /// Of NOT IN a list that is not empty, a NULL on the left is never true.
    fn without_null_keys(&self, batch: RecordBatch) -> Result<RecordBatch> {
        use datafusion::arrow::compute::{filter_record_batch, is_not_null};
        let (key, _) = &self.spilled().join.on()[0];
        let key = key.evaluate(&batch)?.into_array(batch.num_rows())?;
        Ok(filter_record_batch(&batch, &is_not_null(&key)?)?)
    }

    async fn pair(&mut self, sides: [Rows; 2], level: u64, is_of_few_keys: bool) -> Result<()> {
        let (join, budget) = (Arc::clone(&self.spilled().join), self.spilled().budget_bytes);
        let [build, probe] = &sides;
        if gives_nothing(*join.join_type(), build.rows, probe.rows) {
            return Ok(());
        }
        let needed = sides.each_ref().map(|side| table_bytes(side.rows, side.bytes));
        let is_swapped = needed[0] > budget && needed[1] < needed[0];
        let least = needed[usize::from(is_swapped)];
        if least <= budget {
            self.reservation().grow(least);
            let rows = self.joined(&sides, is_swapped)?;
            self.current = Some(Current { rows, form: Form::Whole, rest: None });
            return Ok(());
        }
        if is_of_few_keys || level > LEVELS_MAX {
            return self.begin_blocks(sides);
        }
        let parts = dealt_out(Arc::clone(&self.built), self.lane, &sides, level).await?;
        let most = parts.iter().map(|[build, _]| build.rows).max().unwrap_or(0);
        for sides in parts {
            let is_of_few_keys = sides[0].rows == most && most * 10 > build.rows * 9;
            self.open.push(Work::Pair { sides, level: level + 1, is_of_few_keys });
        }
        Ok(())
    }

    /// The rows of a pair of which one side fits: the right one where `is_swapped`.
    fn joined(&self, sides: &[Rows; 2], is_swapped: bool) -> Result<SendableRecordBatchStream> {
        let spilled = self.spilled();
        let [left, right] = [0, 1].map(|side| sides[side].read(&spilled.spills[side]).map(Given::stream));
        let join = again(&spilled.join, [left?, right?], PartitionMode::CollectLeft, false)?;
        self.executed(join, is_swapped)
    }

    fn executed(&self, join: HashJoinExec, is_swapped: bool) -> Result<SendableRecordBatchStream> {
        let context = Arc::clone(&self.spilled().context);
        match is_swapped {
            true => join.swap_inputs(PartitionMode::CollectLeft)?.execute(0, context),
            false => join.execute(0, context),
        }
    }

    fn begin_blocks(&mut self, sides: [Rows; 2]) -> Result<()> {
        let spills = &self.spilled().spills;
        let join_type = *self.spilled().join.join_type();
        let blocks = |join, build: usize| {
            let probe = 1 - build;
            Ok::<_, datafusion::error::DataFusionError>(Work::Blocks(Box::new(Blocks {
                join,
                build: sides[build].read(&spills[build])?,
                probe: sides[probe].clone(),
                probe_spill: spills[probe].clone(),
            })))
        };
        let work = match join_type {
            JoinType::Full => vec![blocks(BlockJoin::Left, 0)?, blocks(BlockJoin::RestOfProbe, 1)?],
            // Either side may be cut into blocks: the smaller one, as the other is read for each.
            JoinType::Inner if sides[1].bytes < sides[0].bytes => vec![blocks(BlockJoin::Swapped, 1)?],
            of_left if is_of_build_side(of_left) => vec![blocks(BlockJoin::Left, 0)?],
            _ => vec![blocks(BlockJoin::Swapped, 1)?],
        };
        self.open.extend(work);
        Ok(())
    }

    /// Begins the next block, if there is one.
    async fn block(&mut self, mut blocks: Box<Blocks>) -> Result<()> {
        let spilled = self.spilled();
        let (mut batches, mut rows, mut bytes) = (Vec::new(), 0, 0);
        while table_bytes(rows, bytes) < spilled.budget_bytes {
            let Some(batch) = blocks.build.next().await.transpose()? else { break };
            rows += batch.num_rows();
            bytes += get_record_batch_memory_size(&batch);
            batches.push(batch);
        }
        if batches.is_empty() {
            return Ok(());
        }
        self.reservation().grow(table_bytes(rows, bytes));
        let build = Given::batches(blocks.build.schema(), batches);
        let probe = Given::stream(blocks.probe.read(&blocks.probe_spill)?);
        let sides = match blocks.join {
            BlockJoin::Left => [build, probe],
            BlockJoin::Swapped | BlockJoin::RestOfProbe => [probe, build],
        };
        let join = again(&spilled.join, sides, PartitionMode::CollectLeft, false)?;
        let (join, form) = match (blocks.join, join.join_type()) {
            (BlockJoin::RestOfProbe, _) => {
                (join.builder().with_type(JoinType::RightAnti).build()?, Form::ProbeAlone)
            }
            (_, JoinType::Full) => (join.builder().with_type(JoinType::Left).build()?, Form::Whole),
            _ => (join, Form::Whole),
        };
        let rows = self.executed(join, blocks.join != BlockJoin::Left)?;
        self.current = Some(Current { rows, form, rest: Some(blocks) });
        Ok(())
    }
}

/// Both sides by another hash, for `lane`.
async fn dealt_out(built: Arc<Built>, lane: usize, sides: &[Rows; 2], level: u64) -> Result<Vec<[Rows; 2]>> {
    let Built::Spilled(spilled) = built.as_ref() else { unreachable!("a lane is of what was spilled") };
    let buffer_bytes = buffer_bytes(spilled.budget_bytes);
    spilled.reservations[lane].grow(buffer_bytes);
    let mut parts: Vec<[Rows; 2]> = vec![Default::default(); PARTS];
    for (side, keys) in keys(&spilled.join, level).into_iter().enumerate() {
        let spill = &spilled.spills[side];
        let mut partitioner = Partitioner::new(keys, PARTS, buffer_bytes, spill);
        let mut rows = sides[side].read(spill)?;
        while let Some(batch) = rows.next().await.transpose()? {
            partitioner.add(batch)?;
        }
        for (part, rows) in parts.iter_mut().zip(partitioner.end()?.0) {
            part[side] = rows;
        }
    }
    spilled.reservations[lane].free();
    Ok(parts)
}

impl Spilled {
    fn whole_schema(&self) -> SchemaRef {
        self.join.schema()
    }
}

/// True where a join of so many rows has none.
fn gives_nothing(join_type: JoinType, build_rows: usize, probe_rows: usize) -> bool {
    use JoinType::{Full, Inner, Left, LeftAnti, LeftMark, LeftSemi, Right, RightAnti, RightMark, RightSemi};
    match join_type {
        Inner | LeftSemi | RightSemi => build_rows == 0 || probe_rows == 0,
        Left | LeftAnti | LeftMark => build_rows == 0,
        Right | RightAnti | RightMark => probe_rows == 0,
        Full => build_rows == 0 && probe_rows == 0,
    }
}
