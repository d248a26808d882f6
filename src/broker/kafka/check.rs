//! Looks at the cluster: brokers, topics, rights, and whose clock stamps records.

use rdkafka::admin::AdminClient;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::metadata::MetadataTopic;

use super::KafkaBroker;
use super::link::Standing;
use super::properties;
use super::topology;
use crate::config::Topics;
use crate::finding::Finding;

type Admin = AdminClient<Standing>;

impl KafkaBroker {
    /// See [`crate::broker::Broker::check`].
    pub(super) async fn look(&self) -> Vec<Finding> {
        let names = match &self.topics {
            Topics::Named(names) => names.clone(),
            Topics::All => match self.releaser.link.metadata(None).await {
                Ok(all) => {
                    let captures = all.topics().iter().map(MetadataTopic::name);
                    captures.filter_map(topology::destination).map(str::to_owned).collect()
                }
                Err(why) => return vec![Finding::bad("kafka", why)],
            },
        };
        let admin = match self.admin() {
            Ok(admin) => admin,
            Err(why) => return vec![Finding::bad("kafka", why)],
        };
        let mut findings = Vec::new();
        for name in &names {
            let partitions = match self.partitions_of(name).await {
                Ok(partitions) => partitions,
                Err(why) => return vec![Finding::bad("kafka", why)],
            };
            findings.push(destination(name, &partitions));
            findings.push(self.check_capture(admin, name, partitions.ok()).await);
        }
        if names.is_empty()
            && let Err(why) = self.releaser.link.cluster().await
        {
            return vec![Finding::bad("kafka", why)];
        }
        findings.insert(0, Finding::good("kafka", "the cluster answers"));
        findings
    }

    async fn check_capture(&self, admin: &Admin, name: &str, partitions: Option<usize>) -> Finding {
        let capture = topology::capture(name);
        let subject = format!("capture of {name}");
        let wanted = partitions.unwrap_or(1);
        match self.partitions_of(&capture).await {
            Err(why) => return Finding::bad(subject, why),
            Ok(Ok(_)) => {}
            Ok(Err(RDKafkaErrorCode::UnknownTopicOrPartition)) if self.create_topics => {
                let Some(count) = partitions else {
                    let why = format!("waits to be created until the topic {name} stands");
                    return Finding::bad(subject, why);
                };
                if let Err(why) = topology::create(admin, &capture, count).await {
                    let command = topology::command(&self.brokers, &capture, wanted);
                    return Finding::bad(
                        subject,
                        format!("cannot be created: {why}. Run {command}"),
                    );
                }
                tracing::info!(topic = %capture, partitions = count, "created");
            }
            Ok(Err(RDKafkaErrorCode::UnknownTopicOrPartition)) => {
                let command = topology::command(&self.brokers, &capture, wanted);
                let why = format!("the topic {capture} is missing. Run {command}");
                return Finding::bad(subject, why);
            }
            Ok(Err(code)) => {
                let why = format!("{capture}: {code}; grant this user Read and Describe on it");
                return Finding::bad(subject, why);
            }
        }
        match topology::timestamp_type(admin, &capture).await {
            Ok(kind) if kind == "LogAppendTime" => {
                Finding::good(subject, "stands; delays count from the broker's clock")
            }
            Ok(kind) => Finding::good(
                subject,
                format!(
                    "stands; delays count from the producers' clocks ({kind}): for the broker's, \
                     set message.timestamp.type=LogAppendTime on {capture}"
                ),
            ),
            Err(why) => Finding::good(
                subject,
                format!("stands; whose clock delays count from cannot be told: {why}"),
            ),
        }
    }

    /// How many partitions a topic has, or why it cannot be used.
    async fn partitions_of(&self, topic: &str) -> Result<Result<usize, RDKafkaErrorCode>, String> {
        let metadata = self.releaser.link.metadata(Some(topic)).await?;
        let found = metadata.topics().iter().find(|found| found.name() == topic);
        Ok(match found.map(|found| (found.error(), found.partitions().len())) {
            Some((None, partitions @ 1..)) => Ok(partitions),
            Some((Some(error), _)) => Err(error.into()),
            _ => Err(RDKafkaErrorCode::UnknownTopicOrPartition),
        })
    }

    /// Made at the first look.
    fn admin(&self) -> Result<&Admin, String> {
        if let Some(admin) = self.admin.get() {
            return Ok(admin);
        }
        let made: Result<Admin, _> = self.config.create_with_context(Standing::default());
        let made = made.map_err(|error| properties::in_words(&error))?;
        Ok(self.admin.get_or_init(|| made))
    }
}

fn destination(name: &str, partitions: &Result<usize, RDKafkaErrorCode>) -> Finding {
    let subject = format!("topic {name}");
    match partitions {
        Ok(1) => Finding::good(subject, "stands, 1 partition"),
        Ok(partitions) => Finding::good(subject, format!("stands, {partitions} partitions")),
        Err(RDKafkaErrorCode::UnknownTopicOrPartition) => {
            let why = "is missing: create it; what is delayed for it waits";
            Finding::bad(subject, why)
        }
        Err(code) => {
            Finding::bad(subject, format!("{code}; grant this user Write and Describe on it"))
        }
    }
}
