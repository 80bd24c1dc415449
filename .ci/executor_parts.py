"""Parts of the check of leases as pods: images of their own, MIG instances, shares of a GPU."""

import base64
import json

from cluster import until
from kubelet import Kubelet

SPACE, SECRET = "gpuwise", "registry"


def nodes(cluster, folder):
    """A node cut into MIG instances (strategy mixed), and one whose GPUs are given four times each."""
    cut = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.count": "2", "nvidia.com/mig.strategy": "mixed"}
    turns = {"nvidia.com/gpu.product": "NVIDIA-L40S-SHARED", "nvidia.com/gpu.count": "2", "nvidia.com/gpu.replicas": "4"}
    turns["nvidia.com/gpu.sharing-strategy"] = "time-slicing"
    return [
        Kubelet(cluster, folder, "cut", gpus=0, room={"nvidia.com/mig-1g.10gb": "14"}, labels=cut),
        Kubelet(cluster, folder, "turns", gpus=0, room={"nvidia.com/gpu": "8"}, labels=turns),
    ]


def container(check, lease):
    found = json.loads(check.kubectl("get", "pods", "-n", SPACE, "-l", f"gpuwise.dev/lease={lease}", "-o", "json"))["items"]
    return found[0]["spec"]["containers"][0] if found else None


def images(check):
    """Each lease has its image; what cannot be pulled is said while it waits, and why it failed."""
    plain = check.lease("--gpu", "1xH200", "--", "sleep", "1000")
    own = check.lease("--gpu", "1xH200", "--image", "registry.example/team/train:1.4", "--", "sleep", "1000")
    for lease, image in ((plain, "none"), (own, "registry.example/team/train:1.4")):
        check.runs(lease)
        if (found := container(check, lease)["image"]) != image:
            raise SystemExit(f"{lease} runs in {found} and not {image}")
    if "registry.example/team/train:1.4" not in check.ask("lease", "show", own):
        raise SystemExit("lease show does not say the image")
    check.release(plain, own)
    locked = check.lease("--gpu", "1xH200", "--image", "locked.example/train", "--", "sleep", "1000")
    waits = lambda: "its image locked.example/train cannot be had with the pull secret registry: ImagePullBackOff" in check.state(locked).get("queued", {}).get("reason", "")
    until("it is said that its image cannot be pulled", 20, lambda: waits() or check.state(locked))
    said = " ".join(check.ask("lease", "show", locked).split())
    if "Kubernetes: pod gpuwise-l" not in said or "authorization failed" not in said:
        raise SystemExit(f"lease show does not say it: {said}")
    login = json.dumps({"auths": {"locked.example": {"username": "u", "password": "p"}}})
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": SPACE}, "type": "kubernetes.io/dockerconfigjson"}
    secret["data"] = {".dockerconfigjson": base64.b64encode(login.encode()).decode()}
    check.kubectl("apply", "-f", "-", given=json.dumps(secret))
    check.runs(locked, 90)
    if "queued" in check.state(locked):
        raise SystemExit("it runs, and is said to wait")
    gone = check.lease("--gpu", "1xH200", "--image", "registry.example/gone", "--", "sleep", "1000")
    failed = lambda: "did not start it within 15 s: its image registry.example/gone cannot be had" in json.dumps(check.state(gone))
    until("it failed with that reason", 60, lambda: failed() or check.state(gone))
    check.release(locked, gone)
    if "expected an image such as" not in check.refused("lease", "request", "--tenant", "vision", "--gpu", "1xH200", "--image", "a b"):
        raise SystemExit("what is no image is refused")
    print(f"{own}: in an image of its own; {locked}: waited for its image, and ran when the secret was there; {gone}: no image, and said so", flush=True)


def slices(check):
    """MIG instances that are there: each lease has one, of the node that has them."""
    leases = [check.lease("--gpu", "1g.10gb", "--", "sleep", "1000") for _ in range(3)]
    for lease in leases:
        (pod,) = check.runs(lease).values()
        limits = container(check, lease)["resources"]["limits"]
        if pod["node"] != "cut" or limits != {"nvidia.com/mig-1g.10gb": "1"}:
            raise SystemExit(f"{lease}: {pod} {limits}")
    held = check.state(leases[0])["gpus"][0]
    if held["part"] != "1g.10gb" or held["node"] != "cut":
        raise SystemExit(f"the broker holds what the pod has: {held}")
    check.release(*leases)
    print(f"{', '.join(leases)}: an instance 1g.10gb of node cut each, as nvidia.com/mig-1g.10gb", flush=True)


def turns(check):
    """A share as large as the node's device plugin gives; others, and whole GPUs there, are refused with a reason."""
    leases = [check.lease("--gpu", "0.25xL40S", "--", "sleep", "1000") for _ in range(3)]
    for lease in leases:
        (pod,) = check.runs(lease).values()
        if pod["node"] != "turns" or pod["gpus"] != "1":
            raise SystemExit(f"{lease}: {pod}")
    check.release(*leases)
    reasons = {"0.5xL40S": "it gives each GPU 4 times: a share there is 0.250, and 0.5 was asked for"}
    reasons |= {"1xL40S": "no whole one can be had there", "0.25xH200": "it gives whole GPUs alone"}
    for gpu, reason in reasons.items():
        lease = check.lease("--gpu", gpu, "--", "sleep", "1000")
        until(f"{gpu} has its reason", 20, lambda: reason in json.dumps(check.state(lease)) or check.state(lease))
        check.release(lease)
    print(f"{', '.join(leases)}: a quarter of an L40S each, as one of four turns; {', '.join(reasons)}: refused with why", flush=True)
