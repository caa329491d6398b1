//! Elements of answers in XML.

use aws_smithy_types::error::metadata::Builder;
use aws_smithy_xml::decode::{ScopedDecoder, XmlDecodeError, try_data};

/// Calls `read` with each member of an element and its name.
pub(super) fn each_member(
    element: &mut ScopedDecoder<'_, '_>,
    mut read: impl FnMut(&str, &mut ScopedDecoder<'_, '_>) -> Result<(), XmlDecodeError>,
) -> Result<(), XmlDecodeError> {
    let mut name = String::new();
    while let Some(mut member) = element.next_tag() {
        // The name belongs to the member, which is read on.
        name.clear();
        name.push_str(member.start_el().local());
        read(&name, &mut member)?;
    }
    Ok(())
}

/// The items of a list. EC2 calls them so in each but that of inference accelerators, whose are members.
pub(super) fn items_of<T>(
    list: &mut ScopedDecoder<'_, '_>,
    read_item: fn(&mut ScopedDecoder<'_, '_>) -> Result<T, XmlDecodeError>,
) -> Result<Vec<T>, XmlDecodeError> {
    let mut items = Vec::new();
    while let Some(mut item) = list.next_tag() {
        if ["item", "member"].iter().any(|name| item.start_el().matches(name)) {
            items.push(read_item(&mut item)?);
        }
    }
    Ok(items)
}

/// The text of an element.
pub(super) fn text_of(element: &mut ScopedDecoder<'_, '_>) -> Result<String, XmlDecodeError> {
    Ok(try_data(element)?.into_owned())
}

/// Reads code and message of an element `Error`.
pub(super) fn read_error(error: &mut ScopedDecoder<'_, '_>, meta: &mut Builder) -> Result<(), XmlDecodeError> {
    each_member(error, |name, field| {
        let read = std::mem::take(meta);
        *meta = match name {
            "Code" => read.code(text_of(field)?),
            "Message" => read.message(text_of(field)?),
            _ => read,
        };
        Ok(())
    })
}
