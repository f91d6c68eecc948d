"""verl 0.9.1 on a CPU, for tests alone: a platform, and a rollout by transformers (``VERL_PLATFORM=cpu``).

verl trains on GPUs. Its trainer, its FSDP engine, its checkpoints and its merger do not care, once something
answers for the device: this module is loaded by ``VERL_USE_EXTERNAL_MODULES`` in each of its processes and
registers a platform ``cpu`` (gloo; Ray's "GPU" is a number we give it) and a rollout ``transformers``. It touches
what verl keeps private, so it is pinned to that version.
"""

from __future__ import annotations

import asyncio
import contextlib
import types
from collections.abc import Iterator
from typing import Any, ClassVar

import torch
import torch.distributed
from verl.plugin.platform import PlatformBase, PlatformRegistry
from verl.workers.rollout import base as rollout_base
from verl.workers.rollout.replica import RolloutReplicaRegistry

ROLLOUT = "transformers"
SERVER = "transformers_rollout"


class _NoDevice(types.ModuleType):
    """Stands where ``torch.cuda`` would: memory is empty, streams and caches are not there."""

    _KNOWN: ClassVar[dict[str, Any]] = {
        "memory_allocated": 0, "max_memory_allocated": 0, "memory_reserved": 0, "max_memory_reserved": 0,
        "mem_get_info": (1 << 34, 1 << 35), "get_device_name": "cpu",
    }  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name == "get_rng_state":
            return lambda *_, **__: torch.get_rng_state()
        if name == "set_rng_state":
            return lambda state, *_, **__: torch.set_rng_state(state)
        if hasattr(torch.cpu, name):
            return getattr(torch.cpu, name)
        return lambda *_, **__: self._KNOWN.get(name)


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """One device, the CPU."""

    device_name, vendor_name, device_module = "cpu", "generic", _NoDevice("cpu_device")

    def is_available(self) -> bool:
        return True

    def current_device(self) -> torch.device:
        return torch.device("cpu")

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        """There is one."""

    def synchronize(self, device_index: int | None = None) -> None:
        """Nothing runs ahead."""

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def set_allocator_settings(self, settings: str) -> None:
        """No allocator."""

    def empty_cache(self) -> None:
        """No cache."""

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return None, None

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "WMLAB_CPU_VISIBLE_DEVICES"

    @contextlib.contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def profiler_start(self) -> None:
        """No profiler."""

    def profiler_stop(self) -> None:
        """No profiler."""

    def ray_resource_name(self) -> str:
        return "GPU"

    def ray_resource_options(self, num_gpus: float) -> dict[str, float]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False

    def cudart(self) -> None:
        return None


# The engine -----------------------------------------------------------------------------------------


def _let_fsdp_run_on_the_cpu() -> None:
    """Register verl's FSDP engine for this device too, when an engine is first asked for (it imports late)."""
    import torch.distributed.fsdp
    import verl.workers.engine.base as engines

    lookup, ready = engines.EngineRegistry.get_engine_cls, []

    def get_engine_cls(*arguments: Any, **options: Any) -> Any:
        if not ready:
            import verl.workers.engine.fsdp.transformer_impl as fsdp

            policy = torch.distributed.fsdp.CPUOffloadPolicy
            fsdp.CPUOffloadPolicy = lambda pin_memory=True: policy(pin_memory=False)
            register = engines.EngineRegistry.register(
                model_type="language_model", backend=["fsdp", "fsdp2"], device=["cpu"]
            )
            register(fsdp.FSDPEngineWithLMHead)
            ready.append(True)
        return lookup(*arguments, **options)

    engines.EngineRegistry.get_engine_cls = staticmethod(get_engine_cls)


def _name_gloo_once() -> None:
    """verl asks for ``cpu:gloo,<device>:<backend>``; for the device ``cpu`` that names it twice."""
    start = torch.distributed.init_process_group

    def init_process_group(backend: str | None = None, *arguments: Any, **options: Any) -> Any:
        return start("gloo" if backend and "cpu:gloo" in str(backend) else backend, *arguments, **options)

    torch.distributed.init_process_group = init_process_group


# The rollout ----------------------------------------------------------------------------------------


class TransformersServer:
    """A Ray actor that samples with transformers; requests that wait together are one batch."""

    def __init__(self, path: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        torch.set_num_threads(1)
        self.model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(path)
        self.step: int | None = None
        self._waiting: list[tuple[list[int], dict[str, Any], asyncio.Future[Any]]] = []
        self._worker: asyncio.Task[None] | None = None

    async def generate(self, prompt_ids: Any, sampling_params: Any, request_id: str, **_: Any) -> Any:
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((list(prompt_ids), dict(sampling_params), future))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.ensure_future(self._work())
        return await future

    async def _work(self) -> None:
        await asyncio.sleep(0.2)
        while self._waiting:
            batch, self._waiting = self._waiting[:16], self._waiting[16:]
            found = await asyncio.get_running_loop().run_in_executor(None, self._sample, batch)
            for (_, _, future), output in zip(batch, found, strict=True):
                future.set_result(output)

    def _sample(self, batch: list[Any]) -> list[Any]:
        from verl.workers.rollout.replica import TokenOutput

        pad, end = self.tokenizer.pad_token_id, self.tokenizer.eos_token_id
        width = max(len(prompt) for prompt, _, _ in batch)
        ids = torch.full((len(batch), width), pad)
        seen = torch.zeros_like(ids)
        for row, (prompt, _, _) in enumerate(batch):
            ids[row, width - len(prompt) :] = torch.tensor(prompt)
            seen[row, width - len(prompt) :] = 1
        settings = batch[0][1]
        heat = float(settings.get("temperature", 1.0))
        with torch.inference_mode():
            output = self.model.generate(
                input_ids=ids, attention_mask=seen, do_sample=heat > 0, temperature=heat or None, pad_token_id=pad,
                max_new_tokens=int(settings.get("max_tokens") or settings.get("max_new_tokens") or 32),
                output_logits=True, return_dict_in_generate=True,
            )  # fmt: skip
        new = output.sequences[:, width:]
        steps = [torch.log_softmax(logits.float() / (heat or 1.0), -1) for logits in output.logits]
        logprobs = torch.stack(steps, 1).gather(-1, new[..., None])[..., 0]
        found = []
        for tokens, values in zip(new.tolist(), logprobs.tolist(), strict=True):
            n = tokens.index(end) + 1 if end in tokens else len(tokens)
            extra = {"global_steps": self.step}
            found.append(
                TokenOutput(
                    token_ids=tokens[:n], log_probs=values[:n], stop_reason="completed", extra_fields=extra
                )
            )
        return found

    async def load_weights(self, weights: dict[str, torch.Tensor]) -> None:
        missing = self.model.load_state_dict(weights, strict=False)
        assert not missing.unexpected_keys, missing.unexpected_keys

    async def set_global_steps(self, step: int) -> None:
        self.step = step

    async def _nothing(self, *_: Any, **__: Any) -> None:
        """What a server on a GPU does with its memory."""

    wake_up = sleep = clear_kv_cache = abort_all_requests = resume_generation = _nothing
    release_kv_cache = resume_kv_cache = start_profile = stop_profile = wait_for_requests_to_drain = _nothing


class ServerAdapter(rollout_base.BaseRollout):
    """The training worker's side: sends new weights to the server."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sleep_level = 2

    async def resume(self, tags: list[str]) -> None:
        """No memory was given back."""

    async def release(self) -> None:
        """No memory to give back."""

    async def update_weights(self, weights: Any, global_steps: int | None = None, **_: Any) -> None:
        import ray

        server = ray.get_actor(f"{SERVER}_0")
        if hasattr(weights, "__aiter__"):
            named = [(name, value) async for name, value in weights]
        else:
            named = list(weights)
        await server.load_weights.remote(
            {name: value.detach().float().cpu().clone() for name, value in named}
        )
        if global_steps is not None:
            await server.set_global_steps.remote(global_steps)


def _replica() -> type:
    import ray
    from verl.workers.rollout.replica import RolloutReplica

    class Replica(RolloutReplica):
        """One server."""

        async def launch_servers(self) -> None:
            settings = self.model_config
            path = settings.path if hasattr(settings, "path") else settings["path"]
            actor = ray.remote(TransformersServer).options(
                name=f"{SERVER}_{self.replica_rank}", max_concurrency=1000, num_cpus=1
            )
            self._server_handle = actor.remote(path)
            self.servers, self._server_address = [self._server_handle], f"{ROLLOUT}:{self.replica_rank}"

    return Replica


_let_fsdp_run_on_the_cpu()
_name_gloo_once()
rollout_base._ROLLOUT_REGISTRY[(ROLLOUT, "async")] = f"{__name__}.ServerAdapter"
RolloutReplicaRegistry.register(ROLLOUT, _replica)
