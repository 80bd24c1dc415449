"""Pods of StatefulSets that move: within a budget, one after the other, from the highest ordinal."""

import time

from cluster import until

SPACE = "acts"
SET = f"/apis/apps/v1/namespaces/{SPACE}/statefulsets/db"
TURN = "gpuwise.dev/turn"


class Sets:
    """Of `Acts`, which has the API and the operators."""

    def statefulset(self, spec, replicas):
        """A StatefulSet of such pods."""
        template = {"metadata": {"labels": {"app": "db"}}, "spec": spec}
        self.make({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": SPACE}, "spec": {"serviceName": "db", "replicas": replicas, "selector": {"matchLabels": {"app": "db"}}, "template": template}})

    def turn_of(self):
        """The uid of the pod whose turn it is, if there is one."""
        return self.api.get(SET)["metadata"].get("labels", {}).get(TURN)

    def told(self, name, words):
        """A pod that waits says so."""
        said = lambda: next((c["message"] for one in self.api.pods() if one["metadata"]["name"] == name for c in one["status"].get("conditions", []) if c["type"] == "gpuwise.dev/Placed"), "")
        until(f"it is said that {words}", 30, lambda: words in said() or said())
        return said()

    def sets(self):
        """Two pods of 8 GPUs find room as two of four pods of a StatefulSet move, once a budget lets one go at a time."""
        self.policy(moves={"perHour": 100})
        fillers = [self.filler(i) for i in range(4)]
        self.make(*fillers)
        until("fillers run", 60, lambda: self.ready("", 4))
        self.statefulset(self.filler(0, anywhere=True)["spec"], 4)
        until("the StatefulSet runs", 60, lambda: self.ready("db", 4))
        self.cluster.kubectl("delete", "pod", "-n", SPACE, *[one["metadata"]["name"] for one in fillers], "--grace-period=0", "--force")
        self.make(*[self.filler(i, 8, f"large-{i}", anywhere=True) for i in range(2)])
        print(f"StatefulSet: {self.told('large-0', 'no PodDisruptionBudget')}", flush=True)
        self.make(self.budget_of("db", 4))
        # The same reason in other words is said again only after a while.
        time.sleep(3)
        if self.turn_of() or not self.ready("db", 4):
            raise SystemExit("a pod of the StatefulSet goes though its budget lets nobody go")
        before = {one["metadata"]["name"]: one["metadata"]["uid"] for one in self.api.pods()}
        self.api.merge(f"/apis/policy/v1/namespaces/{SPACE}/poddisruptionbudgets/db", {"spec": {"minAvailable": 3}})
        began, gone, least = time.monotonic(), [], 4
        while True:
            pods = self.api.pods()
            mine = [one for one in pods if one["metadata"].get("labels", {}).get("app") == "db"]
            least = min(least, sum(map(self.is_ready, mine)))
            for one in mine:
                name = one["metadata"]["name"]
                if one["metadata"]["uid"] != before[name] and name not in gone:
                    gone.append(name)
            larges = [one for one in pods if one["metadata"]["name"].startswith("large")]
            if all(map(self.is_ready, larges)) and len(mine) == 4 and all(map(self.is_ready, mine)) and not self.turn_of():
                break
            if time.monotonic() - began > 90:
                raise SystemExit(f"not moved after 90 s: {gone}, {[(one['metadata']['name'], one['spec'].get('nodeName'), one['metadata'].get('annotations'), one['status'].get('conditions')) for one in pods]}")
            time.sleep(0.1)
        print(f"StatefulSet: {', '.join(gone)} moved one after the other, {time.monotonic() - began:.1f} s in all; never fewer than {least} of 4 ready", flush=True)
        if least < 3 or len(gone) != 2 or gone != sorted(gone, reverse=True):
            raise SystemExit("they were to go one at a time, the highest ordinal first")
        self.clear()
