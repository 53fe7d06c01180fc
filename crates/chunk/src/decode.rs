//! From a chunk's bytes to values.
//!
//! Pages are decoded straight into the result, which is allocated once: a vector of 1024 values is unpacked into
//! room just made at its end, so what is touched twice is in the first-level cache.

use pelton_error::{Result, ResultExt};

use crate::alp::{self, FloatLane};
use crate::bitpack;
use crate::delta;
use crate::dictionary::{self, check_codes};
use crate::encoding::{Encoding, Layout, Transform};
use crate::format::{PageNulls, corrupt};
use crate::fsst;
use crate::lanes::{Lane, Native, VECTOR, from_lanes, with_native};
use crate::plain;
use crate::runs;
use crate::types::{ByteValues, PhysicalType, Validity, Values};
use crate::view::{ChunkView, Page};

/// Values and validity of a chunk, or of some of its pages.
#[derive(Debug, Clone, PartialEq)]
pub struct DecodedColumn {
    /// One value a row; what stands in a NULL row is undefined.
    pub values: DecodedValues,
    /// `None`: every row is valid.
    pub validity: Option<Validity>,
}

/// Values as the chunk can give them at least cost.
#[derive(Debug, Clone, PartialEq)]
pub enum DecodedValues {
    /// Row by row.
    Plain(Values),
    /// Byte strings by position in a dictionary.
    Dictionary {
        /// One a row, below the dictionary's length.
        codes: Vec<u32>,
        /// Distinct values; sorted where the chunk has the dictionary transform.
        dictionary: ByteValues,
    },
}

impl DecodedColumn {
    /// The number of rows.
    pub fn len(&self) -> usize {
        match &self.values {
            DecodedValues::Plain(values) => values.len(),
            DecodedValues::Dictionary { codes, .. } => codes.len(),
        }
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rows as a plain column: dictionary strings written out.
    pub fn into_column(self) -> Result<crate::types::Column> {
        let values = match self.values {
            DecodedValues::Plain(values) => values,
            DecodedValues::Dictionary { codes, dictionary } => {
                let mut strings = ByteValues::default();
                for code in codes {
                    strings.push(dictionary.get(code as usize))?;
                }
                Values::Bytes(strings)
            }
        };
        Ok(crate::types::Column { values, validity: self.validity })
    }
}

impl ChunkView<'_> {
    /// All rows.
    pub fn decode(&self) -> Result<DecodedColumn> {
        Decoder::new(self, None).decode()
    }

    /// The rows of the pages marked in `pages`, one flag for each page of the chunk, concatenated.
    pub fn decode_pages(&self, pages: &[bool]) -> Result<DecodedColumn> {
        assert_eq!(pages.len(), self.page_count());
        Decoder::new(self, Some(pages)).decode()
    }
}

/// Decodes the selected pages of one chunk.
struct Decoder<'a> {
    chunk: &'a ChunkView<'a>,
    selected: Option<&'a [bool]>,
    rows: usize,
    validity: ValidityBuilder,
    scratch: Vec<u8>,
}

impl<'a> Decoder<'a> {
    fn new(chunk: &'a ChunkView<'a>, selected: Option<&'a [bool]>) -> Self {
        let is_selected = |page: &usize| selected.is_none_or(|selected| selected[*page]);
        let rows = match selected {
            None => chunk.row_count(),
            Some(_) => (0..chunk.page_count())
                .filter(is_selected)
                .map(|page| chunk.header.page_row_count(page))
                .sum(),
        };
        Self { chunk, selected, rows, validity: ValidityBuilder::default(), scratch: Vec::new() }
    }

    fn decode(mut self) -> Result<DecodedColumn> {
        if self.chunk.header.all_null {
            self.validity.push_nulls(self.rows);
        }
        let values = match self.chunk.header.ty {
            PhysicalType::Bytes => self.strings()?,
            PhysicalType::I128 => DecodedValues::Plain(Values::I128(self.wide()?)),
            PhysicalType::F32 if self.chunk.encoding().transform == Transform::Alp => {
                DecodedValues::Plain(Values::F32(from_lanes(self.decimals()?)))
            }
            PhysicalType::F64 if self.chunk.encoding().transform == Transform::Alp => {
                DecodedValues::Plain(Values::F64(from_lanes(self.decimals()?)))
            }
            ty => DecodedValues::Plain(
                with_native!(ty, T => T::wrap(from_lanes::<T>(self.lanes::<<T as Native>::Lane>()?))),
            ),
        };
        Ok(DecodedColumn { values, validity: self.validity.finish() })
    }

    /// Fixed-width values of at most 64 bits, as bits.
    fn lanes<L: Lane>(&mut self) -> Result<Vec<L>> {
        let Encoding { transform, layout, .. } = self.chunk.encoding();
        match (transform, layout) {
            (Transform::Dictionary, _) => {
                let mut entries = Vec::new();
                L::extend_from_le(&mut entries, &self.chunk.dictionary_bytes()?);
                self.looked_up(&entries)
            }
            (_, Layout::Constant) => {
                let mut values = Vec::new();
                L::extend_from_le(&mut values, &self.chunk.dictionary_bytes()?);
                Ok(vec![values.first().copied().unwrap_or_default(); self.rows])
            }
            (_, Layout::Plain) => self.pages(|page, values| {
                plain::decode(page, values);
                Ok(())
            }),
            (_, Layout::BitPacked) => self.pages(|page, values| {
                bitpack::decode(page, values);
                Ok(())
            }),
            (_, Layout::Delta) => self.pages(|page, values| {
                delta::decode(page, values);
                Ok(())
            }),
            (_, Layout::RunLength) => self.pages(|page, values| {
                let base = L::from_u64(page.params.base as u64);
                runs::decode(page, values, |offset| Ok(base.wrapping_add(L::from_u64(offset))))
            }),
        }
    }

    fn decimals<L: FloatLane>(&mut self) -> Result<Vec<L>> {
        self.pages(alp::decode)
    }

    fn wide(&mut self) -> Result<Vec<i128>> {
        let Encoding { transform, layout, .. } = self.chunk.encoding();
        match (transform, layout) {
            (Transform::Dictionary, _) => {
                let entries = self.wide_entries()?;
                self.looked_up(&entries)
            }
            (_, Layout::Constant) => {
                Ok(vec![self.wide_entries()?.first().copied().unwrap_or_default(); self.rows])
            }
            (_, Layout::Plain) => self.pages(|page, values| {
                plain::decode_wide(page, values);
                Ok(())
            }),
            (_, Layout::BitPacked) => self.pages(|page, values| {
                let base = page.params.base;
                bitpack::for_each_vector(page, 0u64, |offsets| {
                    values.extend(offsets.iter().map(|offset| base.wrapping_add((*offset).into())));
                    Ok(())
                })
            }),
            (_, Layout::RunLength) => self.pages(|page, values| {
                let base = page.params.base;
                runs::decode(page, values, |offset| Ok(base.wrapping_add(offset.into())))
            }),
            (_, Layout::Delta) => unreachable!("the header was checked"),
        }
    }

    fn wide_entries(&self) -> Result<Vec<i128>> {
        let bytes = self.chunk.dictionary_bytes()?;
        let words = bytes.chunks_exact(size_of::<i128>());
        Ok(words.map(|word| i128::from_le_bytes(word.try_into().expect("chunks are exact"))).collect())
    }

    /// The entry of each row's code.
    fn looked_up<T: Copy + Default>(&mut self, entries: &[T]) -> Result<Vec<T>> {
        let entry_count = entries.len() as u32;
        if self.chunk.encoding().layout == Layout::RunLength {
            return self.pages(|page, values| {
                let base = page.params.base as u64;
                runs::decode(page, values, |offset| {
                    let entry = entries.get(base.wrapping_add(offset) as usize);
                    entry.copied().ok_or_else(|| corrupt("a run's code has no dictionary entry"))
                })
            });
        }
        self.pages(|page, values| {
            bitpack::for_each_vector(page, page.params.base as u32, |codes| {
                check_codes(codes, entry_count)?;
                values.extend(codes.iter().map(|code| entries[*code as usize]));
                Ok(())
            })
        })
    }

    fn strings(&mut self) -> Result<DecodedValues> {
        let Encoding { transform, layout, .. } = self.chunk.encoding();
        if transform == Transform::None && layout == Layout::Plain {
            return Ok(DecodedValues::Plain(Values::Bytes(self.row_by_row(plain::decode_strings)?)));
        }
        if transform == Transform::Fsst {
            let count = self.chunk.header.dictionary_count as usize;
            let symbols = fsst::Symbols::from_bytes(&self.chunk.dictionary_bytes()?, count)?;
            let strings = self.row_by_row(|page, strings| fsst::decode(page, &symbols, strings))?;
            return Ok(DecodedValues::Plain(Values::Bytes(strings)));
        }
        let dictionary = match self.chunk.header.dictionary_count as usize {
            // All NULL; the codes need an entry to stand for.
            0 => ByteValues { offsets: vec![0, 0], data: Vec::new() },
            count => dictionary::strings_from_bytes(&self.chunk.dictionary_bytes()?, count)?,
        };
        let entry_count = dictionary.len() as u32;
        let codes = match layout {
            Layout::Constant => vec![0; self.rows],
            Layout::RunLength => self.pages(|page, codes| {
                let base = page.params.base as u64;
                runs::decode(page, codes, |offset| {
                    let code = base.wrapping_add(offset);
                    let is_entry = code < u64::from(entry_count);
                    is_entry
                        .then_some(code as u32)
                        .ok_or_else(|| corrupt("a run's code has no dictionary entry"))
                })
            })?,
            _ => self.pages(|page, codes: &mut Vec<u32>| {
                let start = codes.len();
                bitpack::decode(page, codes);
                check_codes(&codes[start..], entry_count)
            })?,
        };
        Ok(DecodedValues::Dictionary { codes, dictionary })
    }

    /// The strings that `decode` appends page after page; empty ones for pages without values.
    fn row_by_row(
        &mut self,
        decode: impl Fn(&Page<'_>, &mut ByteValues) -> Result<()>,
    ) -> Result<ByteValues> {
        let mut strings = ByteValues::default();
        strings.offsets.reserve(self.rows);
        self.for_each_page(|rows, page| {
            if let Some(page) = page {
                return decode(&page, &mut strings);
            }
            let end = strings.data.len() as u32;
            strings.offsets.extend(std::iter::repeat_n(end, rows));
            Ok(())
        })?;
        Ok(strings)
    }

    /// The values that `decode` appends page after page; defaults for pages without values.
    fn pages<T: Copy + Default>(
        &mut self,
        mut decode: impl FnMut(&Page<'_>, &mut Vec<T>) -> Result<()>,
    ) -> Result<Vec<T>> {
        // Layouts append whole vectors before they cut to the page's rows.
        let mut values = Vec::with_capacity(self.rows + VECTOR);
        self.for_each_page(|rows, page| {
            if let Some(page) = page {
                return decode(&page, &mut values);
            }
            values.resize(values.len() + rows, T::default());
            Ok(())
        })?;
        assert_eq!(values.len(), self.rows);
        Ok(values)
    }

    /// Calls `take` with the rows of each selected page and the page, if it has values; collects validity.
    fn for_each_page(&mut self, mut take: impl FnMut(usize, Option<Page<'_>>) -> Result<()>) -> Result<()> {
        for (index, entry) in self.chunk.entries.iter().enumerate() {
            if self.selected.is_some_and(|selected| !selected[index]) {
                continue;
            }
            let rows = self.chunk.header.page_row_count(index);
            let mut take_page = || {
                if entry.nulls == PageNulls::AllNull {
                    self.validity.push_nulls(rows);
                    return take(rows, None);
                }
                let payload = self.chunk.payload(index, &mut self.scratch)?;
                let (bitmap, body) = payload.split_at(entry.bitmap_bytes(rows));
                match entry.nulls {
                    PageNulls::Bitmap => self.validity.push_bitmap(rows, bitmap),
                    _ => self.validity.push_valid(rows),
                }
                take(rows, Some(Page { rows, params: entry.params, body }))
            };
            take_page().context(|| format!("page {index}"))?;
        }
        Ok(())
    }
}

/// Concatenates pages' validity; allocates nothing until there is a NULL.
///
/// All pages but a chunk's last have a multiple of 1024 rows, so pages meet at byte borders.
#[derive(Default)]
struct ValidityBuilder {
    rows: usize,
    bits: Option<Vec<u8>>,
}

impl ValidityBuilder {
    fn push_valid(&mut self, rows: usize) {
        self.rows += rows;
        if let Some(bits) = &mut self.bits {
            bits.resize(self.rows.div_ceil(8), 0xFF);
        }
    }

    fn push_nulls(&mut self, rows: usize) {
        self.rows += rows;
        let end = self.rows.div_ceil(8);
        self.bits_so_far(rows).resize(end, 0);
    }

    fn push_bitmap(&mut self, rows: usize, bitmap: &[u8]) {
        self.rows += rows;
        self.bits_so_far(rows).extend_from_slice(&bitmap[..rows.div_ceil(8)]);
    }

    /// The bits of the rows before the `new_rows` just counted.
    fn bits_so_far(&mut self, new_rows: usize) -> &mut Vec<u8> {
        let rows_before = self.rows - new_rows;
        self.bits.get_or_insert_with(|| vec![0xFF; rows_before.div_ceil(8)])
    }

    fn finish(self) -> Option<Validity> {
        let mut bits = self.bits?;
        if let Some(last) = bits.last_mut()
            && !self.rows.is_multiple_of(8)
        {
            *last &= (1 << (self.rows % 8)) - 1;
        }
        Some(Validity { bits, len: self.rows })
    }
}
