"""What the original's own suite asks of a broker: its integration tests, each with the behaviour it verifies.

Left out are those of what this broker does not have yet: security, and moves between brokers. A
scenario says which rows it covers; a test asks that each is covered, and that none is claimed that is not here.
"""

ROWS = {
    "subscription_basic.basic_subscription_shared": "a consumer of a shared subscription receives and acknowledges",
    "subscription_basic.basic_subscription_exclusive": "a consumer of an exclusive subscription does",
    "pubsub_fanout_exclusive.pubsub_fanout_exclusive_unique_subscriptions": (
        "three exclusive subscriptions: each gets all 24 messages"
    ),
    "queuing_shared_round_robin.queue_shared_round_robin_distribution": (
        "36 messages over three consumers of one shared subscription: each once, evenly"
    ),
    "consumer_churn.churn_shared_queue_join_leave": (
        "a third consumer joins a shared subscription: 45 messages, none lost or twice, everybody gets some"
    ),
    "consumer_churn.churn_exclusive_fanout_join_leave": "another exclusive subscription joins: the others go on",
    "producer_reconnect.producer_reconnection_reuse": "a second producer of the same name: both work",
    "partitioning_validation.partitioning_validation": (
        "a message names its topic, or its partition: -part-0 to -part-2 of three"
    ),
    "partitioned_basic.exclusive": "one consumer merges all partitions and sees the name of each",
    "partitioned_basic.shared": "the same by a shared subscription",
    "partitioned_variants.queue_shared_distribution_and_partition_coverage": (
        "60 messages, three partitions, three shared consumers: about 20 each, all partitions seen"
    ),
    "partitioned_variants.pubsub_fanout_exclusive_full_receipt": (
        "45 messages, three partitions, three exclusive subscriptions: each gets all"
    ),
    "reliable_dispatch_basic.exclusive": "20 binary messages arrive byte for byte and are acknowledged",
    "reliable_dispatch_basic.shared": "the same by a shared subscription",
    "reliable_dispatch_failure_handling.reliable_exclusive_nack": "a nacked message comes again",
    "reliable_dispatch_failure_handling.reliable_shared_nack": "the same by a shared subscription",
    "reliable_dispatch_failure_handling.reliable_exclusive_ack_timeout": (
        "a message not acknowledged in time comes again"
    ),
    "reliable_dispatch_failure_handling.retry_exhausted_block": "nothing new passes a message that blocks",
    "reliable_dispatch_failure_handling.retry_exhausted_drop": "a dropped message is skipped, the next one comes",
    "reliable_dispatch_failure_handling.retry_exhausted_deadletter": (
        "a dead letter is in its topic and says where it comes from; the subscription goes on"
    ),
    "reliable_dispatch_heartbeat.notification_coalescing_recovery": "a burst of 100 messages is delivered to its end",
    "reliable_dispatch_heartbeat.subscription_creation_race_condition": (
        "subscribing while messages are published: none published after it is missed"
    ),
    "reliable_dispatch_heartbeat.consumer_disconnect_during_notification": (
        "a consumer goes while it is being delivered to: the rest comes again, what it acknowledged does not"
    ),
    "reliable_dispatch_heartbeat.poll_next_returns_none_recovery": "after an empty read what is published later comes",
    "reliable_dispatch_reconnection.reliable_exclusive_reconnection": (
        "after a reconnect the unacknowledged message comes before newer ones"
    ),
    "reliable_dispatch_reconnection.reliable_shared_reconnection_failover": (
        "the unacknowledged message of a consumer that is gone comes to another one"
    ),
    "reliable_dispatch_reconnection.reliable_multiple_reconnections": (
        "the same message comes after every reconnect until it is acknowledged"
    ),
    "key_shared_basic.single_consumer_non_reliable": "the only consumer gets everything",
    "key_shared_basic.per_key_affinity_non_reliable": "every key stays at one consumer",
    "key_shared_basic.reliable_per_key_affinity": "the same on a reliable topic",
    "key_shared_basic.reliable_out_of_order_ack": (
        "acknowledgements in reverse order: the position moves when nothing is missing below it"
    ),
    "key_shared_filtering.glob_non_reliable": "consumers with filters get their keys and no others",
    "key_shared_filtering.glob_reliable": "the same on a reliable topic",
    "key_shared_filtering.mixed_with_unfiltered": "keys that match no filter go to the consumer without one only",
    "key_shared_filtering.multiple_patterns": "a consumer has several patterns",
    "key_shared_partitioned.single_consumer": "a key is always in the same partition, and one consumer gets all",
    "key_shared_partitioned.multi_consumer_affinity": "of each partition every key stays at one consumer",
    "key_shared_partitioned.consumer_churn_join": "a third consumer joins: nothing is lost or comes twice",
    "key_shared_partitioned.reliable_partitioned": "reliable, two partitions, keys",
    "key_shared_safety.drop_poison": "a dropped message lets the next of its key go on",
    "key_shared_safety.block_poison_stalls_only_affected_key": "a message that blocks holds up its key, no other",
    "key_shared_safety.deadletter_routes_and_frees_key": "a dead letter is in its topic and its key goes on",
    "key_shared_safety.nack_redelivers": "a nacked message comes again",
    "key_shared_safety.inactive_consumer_eviction": (
        "keys of a consumer that stays away go to the one that is left, after the time of grace"
    ),
    "schema_registry_basic.register_json_schema": "a JSON Schema is registered, and again",
    "schema_registry_basic.register_other_types": "Avro, strings and bytes are registered",
    "schema_registry_basic.producer_with_registered_schema": "producer with registered schema",
    "schema_registry_basic.producer_with_unregistered_schema_fails": "producer with unregistered schema fails",
    "schema_registry_basic.producer_without_schema": "producer without schema",
    "schema_registry_basic.schema_evolution_latest": "schema evolution latest",
    "schema_registry_basic.message_carries_schema": "message carries schema",
    "schema_registry_basic.two_producers_share_a_subject": "two producers share a subject",
    "schema_compatibility.backward_add_optional": "backward add optional",
    "schema_compatibility.backward_remove_required_fails": "backward remove required fails",
    "schema_compatibility.forward_remove_optional": "forward remove optional",
    "schema_compatibility.forward_add_required_fails": "forward add required fails",
    "schema_compatibility.full_strict": "full strict",
    "schema_compatibility.none_allows_breaks": "none allows breaks",
    "schema_compatibility.avro_default_field": "avro default field",
    "schema_compatibility.check_before_registration": "check before registration",
    "schema_compatibility.chain_of_versions": "chain of versions",
    "schema_validation_policy.matching_end_to_end": "matching end to end",
    "schema_validation_policy.several_valid_payloads": "several valid payloads",
    "schema_validation_policy.consumer_handles_two_versions": "consumer handles two versions",
    "schema_validation_policy.avro": "avro",
    "schema_validation_policy.string": "string",
    "schema_validation_policy.bytes": "bytes",
    "schema_validation_policy.metadata_in_messages": "metadata in messages",
    "schema_validation_policy.second_producer_with_other_subject_fails": "second producer with other subject fails",
    "schema_version_selection.pin_to_first": "pin to first",
    "schema_version_selection.minimum_uses_latest": "minimum uses latest",
    "schema_version_selection.two_producers_two_versions": "two producers two versions",
    "schema_version_selection.invalid_version_fails": "invalid version fails",
    "schema_version_selection.default_is_latest": "default is latest",
    "schema_version_selection.minimum_at_the_boundary": "minimum at the boundary",
    "topic_schema_config.first_producer_assigns_the_subject": "first producer assigns the subject",
    "topic_schema_config.another_subject_fails": "another subject fails",
    "topic_schema_config.producer_without_schema_may_connect": "producer without schema may connect",
    "topic_schema_config.several_versions_of_a_subject": "several versions of a subject",
}
