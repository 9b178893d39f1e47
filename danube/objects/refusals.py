"""Refusals of an object store in one sentence each: cause, then next step. Pure."""

from danube.objects.place import ObjectPlace
from danube.objects.store import StoreRefusedError

_WORDS = {
    "NoSuchBucket": "there is no such bucket: make it, or correct object_store.url",
    "NoCredentials": "no keys were found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, or a role",
    "InvalidAccessKeyId": "the access key is not known there: correct the keys",
    "SignatureDoesNotMatch": "the secret key does not fit the access key: correct the keys",
    "ExpiredToken": "the session token has expired: get a new one",
    "AccessDenied": "the keys may not do this: allow them to get, put, list and delete objects below the prefix",
    "403": "the keys may not do this: allow them to get, put, list and delete objects below the prefix",
    "RequestTimeTooSkewed": "the clock of this machine differs too much from the store's: set it by NTP",
    "AuthorizationHeaderMalformed": "the bucket is in another region: correct object_store.region",
    "PermanentRedirect": "the bucket is in another region: correct object_store.region or endpoint",
    "301": "the bucket is in another region: correct object_store.region or endpoint",
    "IllegalLocationConstraintException": "the bucket is in another region: correct object_store.region",
    "NotImplemented": "it does not know this request, which Danube needs: use a store with conditional writes",
    "501": "it does not know this request, which Danube needs: use a store with conditional writes",
}


def refusal_of(code: str, place: ObjectPlace, message: str) -> StoreRefusedError:
    """The error for a code of S3's; an unknown one keeps the store's own words."""
    words = _WORDS.get(code, f"{message or 'no reason given'} ({code}): check object_store")
    return StoreRefusedError(f"{place.url} refuses: {words}")
