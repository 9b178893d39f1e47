"""`danube.control.Plans` and `danube.control.Audit`, ours alone: each method one line into `control/`."""

from danube.broker.services.answers import answer_later, making_room
from danube.broker.services.context import ServiceContext
from danube.rpc.carrier import Service
from danube.wire import decode_oversight, encode_oversight


def plans_service(context: ServiceContext) -> Service:
    """`danube.control.Plans`."""
    plans, decode, encode = context.control.plans, decode_oversight, encode_oversight
    return Service(
        "danube.control.Plans",
        unary={
            "CreatePlan": answer_later(context, decode.create_plan, making_room(context, plans.create), encode.plan),
            "GetPlan": answer_later(context, decode.get_plan, plans.get, encode.plan),
            "ListPlans": answer_later(context, decode.list_plans, plans.list, encode.plans_page),
            "DecidePlan": answer_later(context, decode.decide_plan, making_room(context, plans.decide), encode.plan),
            "ApplyPlan": answer_later(context, decode.apply_plan, making_room(context, plans.apply), encode.plan),
        },
    )


def audit_service(context: ServiceContext) -> Service:
    """`danube.control.Audit`."""
    audit, decode, encode = context.control.audit, decode_oversight, encode_oversight
    return Service(
        "danube.control.Audit",
        unary={
            "Record": answer_later(context, decode.audit_entry, audit.record, encode.audit_receipt),
            "Read": answer_later(context, decode.read_audit, audit.read, encode.audit_page),
        },
    )
