//! The bytes of a message: one field after another, each with its number.

/// Value of a field, by its wire type.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue<'a> {
    /// A number of variable length.
    Number(u64),
    /// Eight bytes.
    Eight(u64),
    /// A text, a message, or bytes.
    Bytes(&'a [u8]),
    /// Four bytes, which no message of Kubernetes has.
    Four,
}

/// Reads fields; none in place of one that cannot be read, and nothing after it.
#[derive(Debug)]
pub struct FieldReader<'a> {
    rest: &'a [u8],
}

impl<'a> FieldReader<'a> {
    /// A reader from the start of a message.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first()?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(number);
            }
        }
        None
    }

    fn take_bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(usize::try_from(count).ok()?)?;
        self.rest = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, FieldValue<'a>)> {
        let tag = self.number()?;
        let item = match tag & 7 {
            0 => FieldValue::Number(self.number()?),
            1 => FieldValue::Eight(u64::from_le_bytes(self.take_bytes(8)?.try_into().ok()?)),
            2 => {
                let count = self.number()?;
                FieldValue::Bytes(self.take_bytes(count)?)
            }
            5 => {
                self.take_bytes(4)?;
                FieldValue::Four
            }
            _ => return None,
        };
        Some((tag >> 3, item))
    }
}

impl<'a> Iterator for FieldReader<'a> {
    type Item = Option<(u64, FieldValue<'a>)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.rest = &[];
        }
        Some(field)
    }
}
