//! A message in the terms of AMQP 0-9-1.

pub(crate) mod property_list;
pub(crate) mod table;

use bytes::Bytes;

use self::property_list::{Property, PropertyList};

/// A message as AMQP 0-9-1 carries it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AmqpContent {
    /// Bytes and not text: brokers pass on routing keys that are not UTF-8.
    pub routing_key: Bytes,
    /// Property flags and property list as in a content header frame.
    pub properties: Bytes,
    /// The body, of any size the broker takes.
    pub body: Bytes,
}

impl AmqpContent {
    /// The `user-id` property, which RabbitMQ takes only from that user. An empty one is none.
    /// `lua/envelope.lua` reads the same.
    pub fn user_id(&self) -> Option<Bytes> {
        let list = PropertyList::read(&self.properties).ok()?;
        let user = list.text(Property::UserId).filter(|user| !user.is_empty())?;
        Some(self.properties.slice_ref(user))
    }
}

#[cfg(test)]
mod tests {
    use amq_protocol::frame::WriteContext;
    use amq_protocol::protocol::basic::gen_properties;
    use lapin::BasicProperties;
    use lapin::types::FieldTable;
    use proptest::prelude::*;

    use super::*;

    fn user_of(properties: BasicProperties) -> Option<Bytes> {
        let written = gen_properties(&properties)(WriteContext::from(Vec::new())).expect("written");
        let properties = Bytes::from(written.into_inner().0);
        AmqpContent { properties, ..AmqpContent::default() }.user_id()
    }

    #[test]
    fn the_user_id_is_found_whatever_stands_before_and_behind_it() {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), lapin::types::AMQPValue::LongInt(5));
        let all = BasicProperties::default()
            .with_content_type("text/plain".into())
            .with_content_encoding("gzip".into())
            .with_headers(headers)
            .with_delivery_mode(2)
            .with_priority(9)
            .with_correlation_id("c".into())
            .with_reply_to("r".into())
            .with_expiration("1".into())
            .with_message_id("m".into())
            .with_timestamp(1)
            .with_type("t".into())
            .with_app_id("a".into())
            .with_cluster_id("c".into());
        assert_eq!(user_of(all.clone()), None);
        assert_eq!(user_of(all.with_user_id("alice".into())).as_deref(), Some(&b"alice"[..]));
        let alone = BasicProperties::default().with_user_id("bob".into());
        assert_eq!(user_of(alone).as_deref(), Some(&b"bob"[..]));
        assert_eq!(user_of(BasicProperties::default().with_user_id("".into())), None);
        assert_eq!(user_of(BasicProperties::default()), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(properties: Vec<u8>) {
            let content = AmqpContent { properties: properties.into(), ..AmqpContent::default() };
            let _ = content.user_id();
        }
    }
}
