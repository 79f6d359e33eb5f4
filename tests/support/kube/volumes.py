"""The volumes of a pod as folders of this machine, and the environment of its containers."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.helm.kubernetes import ApiServer


class Volumes:
    """Makes the volumes of one pod below a folder. They stay until the folder is removed."""

    def __init__(self, api: ApiServer, pod: Mapping[str, Any], folder: Path) -> None:
        self._api = api
        self._namespace = str(pod["metadata"]["namespace"])
        self._pod = pod
        self._group = pod["spec"].get("securityContext", {}).get("fsGroup")
        self._folder = folder
        self._paths: dict[str, Path] = {}

    def make(self) -> None:
        """Make every volume. Raises httpx.HTTPStatusError while one needs an object that is not there."""
        for volume in self._pod["spec"].get("volumes", []):
            if volume["name"] not in self._paths:
                self._paths[volume["name"]] = self._made(volume)

    def mounts(self, container: Mapping[str, Any]) -> list[dict[str, Any]]:
        """Return the mounts of a container, the outer ones first."""
        mounts = [
            {
                "source": str(self._paths[mount["name"]] / mount.get("subPath", "")).rstrip("/"),
                "target": mount["mountPath"],
                "read_only": bool(mount.get("readOnly")),
            }
            for mount in container.get("volumeMounts", [])
        ]
        return sorted(mounts, key=lambda mount: str(mount["target"]))

    def environment(self, container: Mapping[str, Any]) -> dict[str, str]:
        """Return the variables of a container. Raises httpx.HTTPStatusError and KeyError for what is not there."""
        found: dict[str, str] = {}
        for source in container.get("envFrom", []):
            if "secretRef" in source:
                found |= {key: text.decode() for key, text in self._secret(source["secretRef"]["name"]).items()}
            else:
                found |= {key: text.decode() for key, text in self._config(source["configMapRef"]["name"]).items()}
        for one in container.get("env", []):
            found[one["name"]] = one["value"] if "value" in one else self._value(one.get("valueFrom", {}))
        return found

    def _value(self, source: Mapping[str, Any]) -> str:
        match source:
            case {} if not source:
                return ""
            case {"secretKeyRef": at}:
                return self._secret(at["name"])[at["key"]].decode()
            case {"configMapKeyRef": at}:
                return self._config(at["name"])[at["key"]].decode()
            case {"fieldRef": at}:
                found: Any = self._pod
                for part in at["fieldPath"].split("."):
                    found = found[part]
                return str(found)
            case _:
                raise NotImplementedError(f"the stand-in knows no such variable: {source}")

    def _made(self, volume: Mapping[str, Any]) -> Path:
        mine = self._folder / volume["name"]
        match volume:
            case {"emptyDir": _}:
                mine.mkdir()
                mine.chmod(0o777)
                return self._given_to_the_group(mine)
            case {"configMap": how}:
                return self._filled(mine, _chosen(self._config(how["name"]), how), how)
            case {"secret": how}:
                return self._filled(mine, _chosen(self._secret(how["secretName"]), how), how)
            case {"projected": how}:
                parts = dict(part for source in how["sources"] for part in self._projected(source))
                return self._filled(mine, parts, how)
            case {"persistentVolumeClaim": {"claimName": name}}:
                claim = self._get(f"persistentvolumeclaims/{name}")
                bound = self._api.get(f"/api/v1/persistentvolumes/{claim['spec']['volumeName']}")
                return self._given_to_the_group(Path(bound["spec"]["local"]["path"]))
            case _:
                raise NotImplementedError(f"the stand-in knows no such volume: {volume}")

    def _projected(self, source: Mapping[str, Any]) -> Iterator[tuple[str, bytes]]:
        match source:
            case {"secret": how}:
                yield from _chosen(self._secret(how["name"]), how).items()
            case {"configMap": how}:
                yield from _chosen(self._config(how["name"]), how).items()
            case _:
                raise NotImplementedError(f"the stand-in projects no such source: {source}")

    def _filled(self, folder: Path, content: Mapping[str, bytes], how: Mapping[str, Any]) -> Path:
        folder.mkdir(exist_ok=True)
        for name, data in content.items():
            file = folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(how.get("defaultMode", 0o644))
            if self._group is not None:
                os.chown(file, 0, self._group)
        return folder

    def _given_to_the_group(self, folder: Path) -> Path:
        """Give a volume to the group of the pod, as the kubelet does on a mismatch of its root."""
        if self._group is None or folder.stat().st_gid == self._group:
            return folder
        for path in [folder, *folder.rglob("*")]:
            os.chown(path, -1, self._group)
            path.chmod(path.stat().st_mode | (0o2770 if path.is_dir() else 0o660))
        return folder

    def _get(self, path: str) -> dict[str, Any]:
        return self._api.get(f"/api/v1/namespaces/{self._namespace}/{path}")

    def _config(self, name: str) -> dict[str, bytes]:
        return {key: text.encode() for key, text in self._get(f"configmaps/{name}").get("data", {}).items()}

    def _secret(self, name: str) -> dict[str, bytes]:
        return {key: base64.b64decode(text) for key, text in self._get(f"secrets/{name}").get("data", {}).items()}


def _chosen(content: Mapping[str, bytes], how: Mapping[str, Any]) -> dict[str, bytes]:
    """Return all keys of an object, or those that a volume names. Raises KeyError."""
    items = how.get("items")
    return dict(content) if items is None else {item["path"]: content[item["key"]] for item in items}
