"""The chart: what it makes of eight files of values, and which values it refuses."""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import jsonschema  # type: ignore[import-untyped]  # it has no stubs
import kubernetes_validate
import pytest
import yaml

from danube.broker.config.settings import BrokerSettings
from danube.runtime.settings import ENVIRONMENT_PREFIX, fields_of
from tests.deploy import charts
from tests.deploy.charts import CHART, NAMES, ROOT, find_tool, objects, of_kind, pod_templates

OF_PROMETHEUS = {
    "ServiceMonitor": {"required": ["selector", "endpoints"]},
    "PrometheusRule": {
        "required": ["groups"],
        "properties": {
            "groups": {
                "items": {
                    "required": ["name", "rules"],
                    "properties": {"rules": {"items": {"required": ["alert", "expr", "labels", "annotations"]}}},
                }
            }
        },
    },
}
"""The part of these schemas that the chart needs; they are of no Kubernetes version."""
SETTINGS = {ENVIRONMENT_PREFIX + key.replace(".", "_").upper() for key in fields_of(BrokerSettings)}


def test_golden_files_are_those_of_the_chart() -> None:
    for name in NAMES:
        first = (charts.GOLDEN / f"{name}.yaml").read_text().partition("\n")[0] + "\n"
        assert first == charts.head(), "the chart has changed: python -m tests.deploy.charts, and review"


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_helm_makes_the_golden_files(name: str) -> None:
    helm = find_tool("helm")
    if helm is None:
        pytest.skip("there is no helm: `make chart-tools` builds it")
    assert charts.head() + charts.render(helm, name) == (charts.GOLDEN / f"{name}.yaml").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_object_follows_the_schemas_of_kubernetes(name: str) -> None:
    for each in objects(name):
        if each["kind"] in OF_PROMETHEUS:
            jsonschema.validate(each["spec"], OF_PROMETHEUS[each["kind"]])
        else:
            kubernetes_validate.validate(each, charts.KUBERNETES, strict=True)


@pytest.mark.nightly
def test_what_kube_score_calls_critical_is_on_purpose() -> None:
    score = find_tool("kube-score")
    if score is None:
        pytest.skip("there is no kube-score: `make chart-tools` builds it")
    on_purpose = {"CPU limit is not set", "ImagePullPolicy is not set to Always"}
    # A limit of processors makes latency out of load, and tags of releases do not move.
    for name in NAMES:
        path = str(charts.GOLDEN / f"{name}.yaml")
        told = subprocess.run(
            [score, "score", "--output-format", "ci", path], capture_output=True, text=True, check=False
        )
        critical = [line for line in told.stdout.splitlines() if line.startswith("[CRITICAL]")]
        if name == "small":  # says by its values that pods of the namespace may reach everything
            critical = [line for line in critical if "NetworkPolicy" not in line]
        assert [line for line in critical if not any(each in line for each in on_purpose)] == []


@pytest.mark.parametrize("name", NAMES)
def test_no_pod_has_more_rights_than_it_needs(name: str) -> None:
    for _, template in pod_templates(name):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            given = container["securityContext"]
            assert (given["readOnlyRootFilesystem"], given["allowPrivilegeEscalation"]) == (True, False)
            assert given["capabilities"] == {"drop": ["ALL"]}
            assert {"cpu", "memory"} <= container["resources"]["requests"].keys()
            assert "sh" not in (container.get("command") or [""])[0]


@pytest.mark.parametrize("name", NAMES)
def test_names_lead_to_something(name: str) -> None:
    made = {(each["kind"], each["metadata"]["name"]) for each in objects(name)}
    labels = [template["metadata"]["labels"] for _, template in pod_templates(name)]
    for service in of_kind(name, "Service"):
        selector = service["spec"]["selector"].items()
        assert any(selector <= each.items() for each in labels), service["metadata"]["name"]
    for owner, template in pod_templates(name):
        spec, own = (
            template["spec"],
            {each["metadata"]["name"] for each in owner["spec"].get("volumeClaimTemplates", [])},
        )
        volumes = {each["name"]: each for each in spec.get("volumes", [])}
        for container in spec["containers"]:
            assert {each["name"] for each in container["volumeMounts"]} <= volumes.keys() | own
            ports = {each["name"] for each in container.get("ports", [])}
            for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
                for how in ("httpGet", "tcpSocket"):
                    if how in container.get(probe, {}):
                        assert container[probe][how]["port"] in ports
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in made


@pytest.mark.parametrize("name", NAMES)
def test_three_brokers_vote_and_settings_are_those_of_the_broker(name: str) -> None:
    sets = {each["metadata"]["labels"]["danube/brokers"]: each["spec"] for each in of_kind(name, "StatefulSet")}
    assert sets["voters"]["replicas"] == 3
    for how in sets.values():
        container = how["template"]["spec"]["containers"][0]
        given = {each["name"] for each in container["env"] if each["name"].startswith(ENVIRONMENT_PREFIX)}
        beside = {each for each in given if each.startswith(("DANUBE_ADMIN_", "DANUBE_HOOK_"))} - {"DANUBE_ADMIN_ADDR"}
        assert given - beside <= SETTINGS
        assert how["template"]["spec"]["terminationGracePeriodSeconds"] >= 45  # ten seconds of moves, and room
    seeds = [
        each
        for each in sets["voters"]["template"]["spec"]["containers"][0]["env"]
        if each["name"].endswith("SEED_NODES")
    ]
    assert [len(each["value"].split(",")) for each in seeds] == ([] if name == "etcd" else [3])
    assert of_kind(name, "PodDisruptionBudget")[0]["spec"]["maxUnavailable"] == 1


@pytest.mark.parametrize("name", NAMES)
def test_a_server_that_passes_tokens_on_has_none_of_its_own(name: str) -> None:
    for _, template in pod_templates(name):
        for container in template["spec"]["containers"]:
            if "--pass-tokens" in container.get("args", []):
                assert "DANUBE_ADMIN_TOKEN" not in {each["name"] for each in container["env"]}
                assert (container["name"], name) == ("web", "secured")


def test_pods_that_mount_the_authority_trust_it() -> None:
    mounted = [
        {each["value"] for each in container["env"] if "value" in each}
        for _, template in pod_templates("secured")
        for container in template["spec"]["containers"]
        if "/etc/danube/tls" in {each["mountPath"] for each in container["volumeMounts"]}
    ]
    assert len(mounted) == 3
    assert all("/etc/danube/tls/ca.crt" in values for values in mounted)


def test_services_say_whether_their_ports_speak_tls() -> None:
    for name, spoken in (("default", "kubernetes.io/h2c"), ("secured", "https")):
        ports = [port for each in of_kind(name, "Service") for port in each["spec"]["ports"]]
        assert {each["appProtocol"] for each in ports if "appProtocol" in each} == {spoken}


def test_a_hook_that_could_not_carry_fails_and_one_that_activates_never_does() -> None:
    for hook, code in (("carry", 1), ("activate", 0)):
        told = subprocess.run(
            [sys.executable, "-I", str(CHART / "files" / "hooks.py"), hook],
            env={"DANUBE_ADVERTISED_ADDR": "danube-0:6650", "DANUBE_HOOK_SECONDS": "0"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert (told.returncode, told.stderr) == (code, f"danube-0:6650: {hook} is not done in time. \n")


def test_a_load_balancer_of_clients_does_not_lead_to_administration() -> None:
    services = {each["metadata"]["name"]: each["spec"] for each in of_kind("everything", "Service")}
    assert services["danube"]["type"] == "LoadBalancer"
    assert {each["name"] for each in services["danube"]["ports"]} == {"clients", "schemas"}
    assert services["danube-admin"].get("type", "ClusterIP") == "ClusterIP"


def test_alerts_ask_for_metrics_that_exist_and_say_what_to_do() -> None:
    known = set(re.findall(r"^\| `(danube_\w+)`", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE))
    (rule,) = of_kind("everything", "PrometheusRule")
    rules = [each for group in rule["spec"]["groups"] for each in group["rules"]]
    assert len(rules) == len({each["alert"] for each in rules}) == 13
    for each in rules:
        used = {re.sub("_bucket$", "", name) for name in re.findall(r"danube_\w+", each["expr"])}
        assert used <= known, each["alert"]
        assert each["labels"]["severity"] in {"warning", "critical"}
        assert each["annotations"].keys() == {"summary", "description"}


def test_prometheus_reads_the_alerts() -> None:
    promtool = find_tool("promtool")
    if promtool is None:
        pytest.skip("there is no promtool: install Debian's package `prometheus`")
    told = subprocess.run(
        [promtool, "check", "rules", str(CHART / "files" / "alerts.yaml")], capture_output=True, text=True, check=False
    )
    assert told.returncode == 0, told.stderr


BAD: dict[str, list[Any]] = {
    "brokers.more": [-1, "two", 62],
    "brokers.settings": [{"retention": "1"}, {"DANUBE_RETENTION_TIME_S": 1}],
    "brokers.terminationGracePeriodSeconds": [5],
    "brokers.voters": [5],
    "metadata.type": ["sqlite", "etcd"],
    "storage.mode": ["nfs", "object_store"],
    "storage.size": ["20"],
    "storage.objectStore.url": ["http://bucket"],
    "auth.enabled": [True],
    "listenHost": ["localhost"],
    "networkPolicy.clients": [[{"pods": {}}]],
    "web.access": ["root"],
    "web.enabled": [True],
    "mcp.enabled": [True],
    "connect.runners": [{"Orders": {"secret": "s"}}, {"orders": {}}],
    "analytics.jobs": [{"lag": {"schedule": "hourly", "args": ["lag"]}}],
    "retries": [3],
}


def _bad() -> Iterator[Any]:
    for path, values in BAD.items():
        for value in values:
            yield pytest.param(path, value, id=f"{path}={json.dumps(value)[:40]}")


@pytest.mark.parametrize(("path", "value"), list(_bad()))
def test_a_value_that_cannot_be_is_refused_by_its_name(path: str, value: Any) -> None:
    values = copy.deepcopy(yaml.safe_load((CHART / "values.yaml").read_text()))
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.validate(values, schema)
    *folders, key = path.split(".")
    place = values
    for folder in folders:
        place = place[folder]
    place[key] = value
    with pytest.raises(jsonschema.ValidationError) as refused:
        jsonschema.validate(values, schema)
    first = refused.value.absolute_path[0] if refused.value.absolute_path else key
    assert first == path.partition(".")[0]


@pytest.mark.nightly
def test_helm_refuses_bad_values_and_long_names() -> None:
    helm = find_tool("helm")
    if helm is None:
        pytest.skip("there is no helm: `make chart-tools` builds it")
    for name, given, said in (
        ("danube", "storage.mode=object_store", "/storage/objectStore/url"),
        ("a-name-of-a-release-that-nobody-can-read-aloud", "labels.a=b", "is too long"),
    ):
        told = subprocess.run(
            [helm, "template", name, str(CHART), "--kube-version", charts.KUBERNETES, "--set", given],
            capture_output=True,
            text=True,
            check=False,
        )
        assert told.returncode != 0
        assert said in told.stderr
