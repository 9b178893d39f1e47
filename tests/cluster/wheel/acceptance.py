"""What the original's own suite asks of a broker: its integration tests, each with the behaviour it verifies.

Left out are those of what this broker does not have yet: the schema registry, security, and moves between brokers. A
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
}
