"""A stand-in for Kubernetes on this machine: it runs the pods of rendered StatefulSets as processes.

It does what a kubelet and the controller of StatefulSets do with them: environment, volumes, names, probes over HTTP,
hooks, SIGTERM and the grace period, restarts, rolling updates, Jobs. A pod has an address of loopback for itself, so
all ports are those of the chart; names of the cluster's DNS are written as these addresses.
"""

import asyncio
import base64
import os
import re
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from danube.runtime.tasks import TaskScope
from danube.testing.patience import PATIENCE_S

ENTRYPOINTS = {
    "broker": ["danube-broker"],
    "admin": ["danube-admin"],
    "analytics": ["danube-analytics"],
    "connect": ["danube", "connect"],
}
"""Of the images, as deploy/image/Containerfile has them."""
_PROGRAMS = {"danube-broker": "danube.broker", "danube-admin": "danube.admin", "danube": "danube.cli"}
_NAMESPACE, _DOMAIN = "messaging", "svc.cluster.local"
_BACK_OFF_S = 1.0


class Kubelet:
    """Runs the pods of one release. Close it with `stop`."""

    def __init__(
        self,
        objects: Sequence[dict[str, Any]],
        folder: Path,
        *,
        secrets: Mapping[str, Mapping[str, str]],
        network: int,
        texts: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """`secrets` exist already, beside those of the release; `texts` are replaced in what containers are given.

        `network` is the second number of the pods' addresses, 64 to 126; `variables` are more of each container's.
        """
        self.folder = folder
        self.objects = objects
        self.secrets = {
            **{
                each["metadata"]["name"]: {key: base64.b64decode(value).decode() for key, value in each["data"].items()}
                for each in objects
                if each["kind"] == "Secret"
            },
            **secrets,
        }
        self.texts, self.variables = dict(texts or {}), dict(variables or {})
        self.tasks = TaskScope("kubelet")
        self.sets: dict[str, list[Pod]] = {}
        self.events: list[str] = []
        at = 0
        for each in self._of_kind("StatefulSet"):
            name = each["metadata"]["name"]
            self.sets[name] = []
            for number in range(each["spec"]["replicas"]):
                at += 1
                self.sets[name].append(Pod(self, f"{name}-{number}", f"127.{network}.0.{at}", each))

    @property
    def pods(self) -> list["Pod"]:
        """All pods, in the order of their sets."""
        return [pod for pods in self.sets.values() for pod in pods]

    async def start(self) -> None:
        """Start all pods and Jobs at once, and wait until all are ready and done."""
        async with asyncio.timeout(2 * PATIENCE_S):
            for pod in self.pods:
                await pod.start()
            jobs = [self._job(each) for each in self._of_kind("Job")]
            await asyncio.gather(*jobs, *(pod.ready.wait() for pod in self.pods))

    async def roll(self) -> None:
        """A rolling update of all sets at once: of each the last pod first, the next once it was ready for a while."""
        await asyncio.gather(*(self._roll(each) for each in self._of_kind("StatefulSet")))

    async def stop(self) -> None:
        """Kill what is left."""
        await self.tasks.close()
        for pod in self.pods:
            await pod.kill()

    def address_of(self, name: str) -> str:
        """The address of a Service: that of one pod that is ready, or of any."""
        ready = [pod.address for pod in self.pods if pod.ready.is_set()]
        return (ready or [pod.address for pod in self.pods])[0]

    def resolved(self, text: str) -> str:
        """The text with addresses in place of names."""
        for pod in self.pods:
            text = re.sub(rf"\b{pod.name}\.[a-z-]+\.{_NAMESPACE}\.{_DOMAIN}\b", pod.address, text)
        text = re.sub(rf"[a-z-]+\.{_NAMESPACE}\.{_DOMAIN}", lambda found: self.address_of(found[0]), text)
        for old, new in self.texts.items():
            text = text.replace(old, new)
        return text

    async def _roll(self, stateful_set: dict[str, Any]) -> None:
        spec = stateful_set["spec"]
        for pod in reversed(self.sets[stateful_set["metadata"]["name"]]):
            await pod.end()
            await pod.start()
            async with asyncio.timeout(2 * PATIENCE_S):
                await pod.ready.wait()
            await asyncio.sleep(spec["minReadySeconds"])

    async def _job(self, job: dict[str, Any]) -> None:
        spec = job["spec"]["template"]["spec"]
        assert spec["restartPolicy"] == "OnFailure"
        pod = Pod(self, job["metadata"]["name"], "127.0.0.1", job)
        for container in spec["containers"]:
            code = 1
            while code:
                code = await pod.run(container["command"], container)
                await asyncio.sleep(_BACK_OFF_S)

    def _of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [each for each in self.objects if each["kind"] == kind]


class Pod:
    """One pod with one container."""

    def __init__(self, kubelet: Kubelet, name: str, address: str, owner: dict[str, Any]) -> None:
        self.name = name
        self.address = address
        self.ready = asyncio.Event()
        self.restarts = self.kills = 0
        self._kubelet = kubelet
        self._spec = owner["spec"]["template"]["spec"]
        self._claims = [each["metadata"]["name"] for each in owner["spec"].get("volumeClaimTemplates", [])]
        (self._container,) = self._spec["containers"][:1]
        self._process: Process | None = None
        self._is_ending = False
        self._tasks = TaskScope(name)
        self.log = kubelet.folder / f"{name}.log"

    async def start(self) -> None:
        """Start the container with its hook and its probes; does not wait until it is ready."""
        self._is_ending = False
        self._tasks = TaskScope(self.name)
        await self._launch()

    async def end(self) -> None:
        """As a deleted pod ends: the hook, SIGTERM, and SIGKILL when the grace period is over."""
        self._is_ending = True
        self.ready.clear()
        try:
            async with asyncio.timeout(self._spec["terminationGracePeriodSeconds"]):
                await self._hook("preStop")
                if self._process is not None and self._process.returncode is None:
                    self._process.send_signal(signal.SIGTERM)
                    await self._process.wait()
        except TimeoutError:
            self.kills += 1
            await self.kill()
        await self._tasks.close()

    async def kill(self) -> None:
        """SIGKILL, and no probes any more."""
        self._is_ending = True
        await self._tasks.close()
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    async def run(self, command: Sequence[str], container: dict[str, Any]) -> int:
        """Run a command in a container, and answer its exit code."""
        process = await self._spawn([*command], container)
        return await process.wait()

    async def _launch(self) -> None:
        image = self._container["image"].rpartition(":")[0].rpartition("-")[2]
        command = self._container.get("command", ENTRYPOINTS[image])
        self._process = await self._spawn([*command, *self._container.get("args", [])], self._container)
        self._tasks.spawn(self._watch(self._process), "watch")
        self._tasks.spawn(self._probe(self._process), "probes")

    async def _spawn(self, command: list[str], container: dict[str, Any]) -> Process:
        variables = self._variables(container)
        first, *rest = (self._local(each) for each in command)
        program = [sys.executable] if first == "python3" else [sys.executable, "-m", _PROGRAMS[first]]
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *program, *rest, stdin=asyncio.subprocess.DEVNULL, stdout=log, stderr=log, env=variables
            )

    def _variables(self, container: dict[str, Any]) -> dict[str, str]:
        found: dict[str, str] = {}
        for each in container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                found[each["name"]] = {"metadata.name": self.name, "status.podIP": self.address}[
                    source["fieldRef"]["fieldPath"]
                ]
            elif "secretKeyRef" in source:
                found[each["name"]] = self._kubelet.secrets[source["secretKeyRef"]["name"]][
                    source["secretKeyRef"]["key"]
                ]
            else:
                expanded = re.sub(r"\$\((\w+)\)", lambda name: found.get(name[1], name[0]), str(each["value"]))
                found[each["name"]] = self._local(expanded)
        programs = Path(sys.executable).parent
        return {"PATH": f"{programs}:{os.defpath}", **found, **self._kubelet.variables}

    def _local(self, text: str) -> str:
        mounts = {each["mountPath"]: each["name"] for each in self._container["volumeMounts"]}
        places = "|".join(sorted(map(re.escape, mounts), key=len, reverse=True))
        text = self._kubelet.resolved(text).replace("0.0.0.0", self.address)
        return re.sub(rf"^({places})(?=/|$)", lambda found: str(self._volume(mounts[found[1]])), text)

    def _volume(self, name: str) -> Path:
        whole, own = self._kubelet.folder / "volumes", self._kubelet.folder / "pods" / self.name / name
        if name in self._claims:
            place = whole / f"{name}-{self.name}"
        else:
            (volume,) = (each for each in self._spec["volumes"] if each["name"] == name)
            if "persistentVolumeClaim" in volume:
                place = whole / volume["persistentVolumeClaim"]["claimName"]
            elif "secret" in volume:
                return self._files(own, self._kubelet.secrets[volume["secret"]["secretName"]])
            elif "configMap" in volume:
                (found,) = (
                    each
                    for each in self._kubelet.objects
                    if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", volume["configMap"]["name"])
                )
                return self._files(own, found["data"])
            else:
                place = own
        place.mkdir(parents=True, exist_ok=True)
        return place

    def _files(self, place: Path, files: Mapping[str, str]) -> Path:
        if not place.exists():
            place.mkdir(parents=True)
            for name, content in files.items():
                (place / name).write_text(content)
                (place / name).chmod(0o400)
        return place

    async def _watch(self, process: Process) -> None:
        code = await process.wait()
        self.ready.clear()
        if not self._is_ending:
            self.restarts += 1
            self._kubelet.events.append(f"{self.name} ended by itself with {code}")
            await asyncio.sleep(_BACK_OFF_S)
            await self._launch()

    async def _probe(self, process: Process) -> None:
        await self._hook("postStart")
        await self._until("startupProbe", process, holds=True)
        self._tasks.spawn(self._until("livenessProbe", process, holds=False), "liveness")
        probe = self._container["readinessProbe"]
        failed = 0
        while process.returncode is None:
            is_well = await self._asked(probe)
            failed = 0 if is_well else failed + 1
            if is_well and not self._is_ending:
                self.ready.set()
            elif failed >= probe.get("failureThreshold", 3):
                self.ready.clear()
            await asyncio.sleep(probe["periodSeconds"])

    async def _until(self, name: str, process: Process, *, holds: bool) -> None:
        """Ask until the probe holds; or for as long as it does, and kill the container when it no longer does."""
        probe, failed = self._container[name], 0
        while process.returncode is None:
            if await self._asked(probe):
                failed = 0
                if holds:
                    return
            else:
                failed += 1
            if failed >= probe["failureThreshold"]:
                self._kubelet.events.append(f"{self.name} is killed: {name} failed")
                process.kill()
            await asyncio.sleep(probe["periodSeconds"])

    async def _asked(self, probe: dict[str, Any]) -> bool:
        (port,) = (
            each["containerPort"] for each in self._container["ports"] if each["name"] == probe["httpGet"]["port"]
        )
        with suppress(OSError, TimeoutError):
            async with asyncio.timeout(probe.get("timeoutSeconds", 1)):
                reader, writer = await asyncio.open_connection(self.address, port)
                try:
                    writer.write(f"GET {probe['httpGet']['path']} HTTP/1.0\r\n\r\n".encode())
                    return (await reader.readline()).split()[1:2] == [b"200"]
                finally:
                    writer.close()
                    await writer.wait_closed()
        return False

    async def _hook(self, name: str) -> None:
        hook = self._container.get("lifecycle", {}).get(name)
        if hook and "sleep" in hook:
            await asyncio.sleep(hook["sleep"]["seconds"])
        elif hook and await self.run(hook["exec"]["command"], self._container) != 0:
            self._kubelet.events.append(f"the hook {name} of {self.name} failed")
