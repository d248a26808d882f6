//! What a refused release means: for the record, for its destination, or for all of them.

use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};

use crate::broker::NotReleased;
use crate::message::Reason;

/// The label of what is refused for its size, or its batch's.
pub(super) const TOO_LARGE: &str = "too-large";

/// What is to be done about a record that was not delivered. `away`: no broker answers.
pub(super) fn judge(error: &KafkaError, away: Option<&str>) -> NotReleased {
    let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
    let says = |label, what: &str| Reason::new(label, format!("{what}: {code}"));
    match code {
        Code::MessageSizeTooLarge | Code::InvalidMessageSize | Code::MessageBatchTooLarge => {
            NotReleased::Refused(says(TOO_LARGE, "the topic takes no record of this size"))
        }
        Code::UnknownTopicOrPartition | Code::UnknownTopic | Code::NoEnt => {
            NotReleased::Waiting(says("destination", "its topic is missing"))
        }
        Code::UnknownPartition => NotReleased::Refused(says(
            "partition",
            "its topic has no such partition (kafka.preserve_partition)",
        )),
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => {
            NotReleased::Waiting(says("destination", "this user may not write to its topic"))
        }
        Code::InvalidMessage
        | Code::InvalidTimestamp
        | Code::InvalidRecord
        | Code::PolicyViolation => {
            NotReleased::Refused(says("refused", "the broker did not take it"))
        }
        Code::MessageTimedOut | Code::TimedOutQueue | Code::PurgeInflight => match away {
            Some(why) => NotReleased::Waiting(Reason::new("connection", why)),
            None => NotReleased::Unconfirmed(says(
                "unconfirmed",
                "not confirmed in time; has its partition a leader and enough replicas?",
            )),
        },
        _ => NotReleased::Waiting(says("connection", "the broker did not take it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(code: Code, away: Option<&str>) -> NotReleased {
        judge(&KafkaError::MessageProduction(code), away)
    }

    #[test]
    fn blame_falls_on_the_record_the_topic_or_the_connection() {
        assert!(matches!(judged(Code::MessageSizeTooLarge, None), NotReleased::Refused(_)));
        let missing = judged(Code::UnknownTopicOrPartition, None);
        assert!(matches!(missing, NotReleased::Waiting(why) if why.label() == "destination"));
        assert!(matches!(judged(Code::MessageTimedOut, None), NotReleased::Unconfirmed(_)));
        let away = judged(Code::MessageTimedOut, Some("all brokers are down"));
        assert!(matches!(away, NotReleased::Waiting(why) if why.label() == "connection"));
        assert!(matches!(judged(Code::NotCoordinator, None), NotReleased::Waiting(_)));
    }
}
