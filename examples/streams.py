#!/usr/bin/env python3
"""Streams two replies at once, cancels one, and asks why a prompt missed: libhearth from Python, without a compiler.

    streams.py MODEL.gguf [LIBRARY]

LIBRARY is the path of libhearth.so; without it, the system's loader looks for it. Only Python's standard library is
used: ctypes calls the library, asyncio waits for the descriptor of the queue of events. No Python code runs on a thread
of the library.

The structs below declare only the fields that this program needs, from the first one on. struct_size tells the library
where each declaration ends. tests/headers/abi.txt lists all fields.
"""
import asyncio
import ctypes
import ctypes.util
import sys
from ctypes import POINTER, byref, c_bool, c_char, c_char_p, c_float, c_int, c_int32, c_size_t, c_uint, c_uint32
from ctypes import c_uint64, c_void_p, sizeof

TEXT, TOKEN, DONE, LOADING, LOADED = 2, 3, 4, 5, 6  # hearth_event_kind
AT_ONCE = 64  # events that one call takes


class Sampling(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("temperature", c_float)]


class Request(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("prompt", c_char_p), ("tokens", c_void_p), ("n_tokens", c_size_t),
        ("tokenize_flags", c_uint), ("n_predict", c_int32), ("ignore_eos", c_bool), ("no_cache_read", c_bool),
        ("sampling", POINTER(Sampling)), ("stop", c_void_p), ("n_stop", c_size_t), ("parent_key", c_void_p),
        ("cache_salt", c_char_p), ("on_text", c_void_p), ("on_progress", c_void_p), ("on_done", c_void_p),
        ("user_data", c_void_p), ("on_token", c_void_p), ("n", c_uint32), ("priority", c_int32),
        ("session_id", c_char_p), ("prefill_only", c_bool), ("echo", c_bool), ("min_tokens", c_uint32),
        ("stop_tokens", c_void_p), ("n_stop_tokens", c_size_t), ("logprobs", c_bool), ("n_top_logprobs", c_uint32),
        ("queue_timeout_ms", c_uint32), ("run_timeout_ms", c_uint32), ("deadline_ms", c_uint32),
        ("replayed", c_void_p), ("n_replayed", c_size_t), ("tell_replayed", c_bool), ("is_resumed", c_bool),
        ("prompt_logprobs", c_bool), ("events", c_void_p)]


class Stats(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("prompt_tokens", c_uint32), ("cached_tokens", c_uint32),
                ("completion_tokens", c_uint32)]


class Result(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("status", c_int), ("finish_reason", c_int), ("text", c_char_p),
                ("n_bytes", c_size_t), ("tokens", c_void_p), ("stats", POINTER(Stats))]


class Event(ctypes.Structure):
    _fields_ = [
        ("struct_size", c_size_t), ("kind", c_int), ("reply", c_uint32), ("id", c_uint64), ("user_data", c_void_p),
        ("text", c_char_p), ("n_bytes", c_size_t), ("token", c_int32), ("index", c_uint32), ("is_replayed", c_bool),
        ("n_top_logprobs", c_uint32), ("logprobs", c_void_p), ("stats", c_void_p), ("phase", c_int),
        ("n_done", c_uint32), ("n_total", c_uint32), ("fraction", c_float), ("status", c_int), ("error", c_void_p),
        ("result", POINTER(Result)), ("model", c_void_p)]


class Explanation(ctypes.Structure):
    _fields_ = [("struct_size", c_size_t), ("prompt_tokens", c_uint32), ("known_tokens", c_uint32),
                ("knows_logits", c_bool), ("tier", c_int), ("miss", c_int), ("left_at", c_uint32),
                ("left_text", c_char * 64), ("detail", c_char * 256)]


class HearthError(Exception):
    pass


class Hearth:
    """A runtime and its queue of events."""

    def __init__(self, path):
        self.c = ctypes.CDLL(path)
        for name in ("hearth_version", "hearth_status_name", "hearth_finish_reason_name"):
            getattr(self.c, name).restype = c_char_p
        self.c.hearth_error_message.restype = c_char_p
        self.c.hearth_error_message.argtypes = [c_void_p]
        self.c.hearth_error_size.restype = c_size_t
        for name in ("hearth_runtime_close", "hearth_events_close", "hearth_model_unref"):
            getattr(self.c, name).argtypes = [c_void_p]
            getattr(self.c, name).restype = None
        self.runtime = c_void_p()
        self.call("hearth_runtime_open", None, byref(self.runtime))
        self.queue = c_void_p()
        self.call("hearth_events_open", None, byref(self.queue))
        self.waiting = {}  # id of a request or a load -> asyncio queue of (kind, value)
        self.buffer = (POINTER(Event) * AT_ONCE)()
        asyncio.get_running_loop().add_reader(self.c.hearth_events_fd(self.queue), self.take)

    def close(self):
        asyncio.get_running_loop().remove_reader(self.c.hearth_events_fd(self.queue))
        self.c.hearth_events_close(self.queue)
        self.c.hearth_runtime_close(self.runtime)

    def call(self, name, *arguments):
        """Call a function whose last argument is a hearth_error, and that returns a status."""
        error = ctypes.create_string_buffer(self.c.hearth_error_size())
        if getattr(self.c, name)(*arguments, error) != 0:
            raise HearthError(self.c.hearth_error_message(error).decode())

    def take(self):
        """The descriptor is readable: give each event to the coroutine that waits for it."""
        n = c_size_t()
        while True:
            self.call("hearth_events_take", self.queue, self.buffer, c_size_t(AT_ONCE), c_uint32(0), byref(n))
            if n.value == 0:
                return
            for pointer in self.buffer[:n.value]:
                event = pointer.contents  # valid until the next take, so the values are copied
                self.waiting[event.id].put_nowait((event.kind, self.value_of(event)))

    def value_of(self, event):
        if event.kind in (TEXT, TOKEN):
            return event.text.decode()
        if event.kind == LOADING:
            return event.fraction
        if event.kind == LOADED:
            return HearthError(self.c.hearth_error_message(event.error).decode()) if event.error else event.model
        if event.kind == DONE and event.result:
            stats = event.result.contents.stats.contents
            reason = self.c.hearth_finish_reason_name(event.result.contents.finish_reason).decode()
            return {"status": self.c.hearth_status_name(event.status).decode(), "finish": reason,
                    "prompt": stats.prompt_tokens, "cached": stats.cached_tokens, "reply": stats.completion_tokens}
        return None

    async def load(self, path):
        load_id = c_uint64()
        self.call("hearth_model_load_start", self.runtime, path.encode(), None, self.queue, None, byref(load_id))
        events = self.waiting[load_id.value] = asyncio.Queue()
        kind, value = LOADING, 0.0
        while kind != LOADED:
            kind, value = await events.get()
        if isinstance(value, HearthError):
            raise value
        return Model(self, c_void_p(value))


class Model:
    def __init__(self, hearth, handle):
        self.hearth = hearth
        self.handle = handle

    def request(self, prompt, n_predict):
        request = Request()
        self.hearth.c.hearth_request_init(byref(request), c_size_t(sizeof(request)))
        sampling = Sampling()
        self.hearth.c.hearth_sampling_init(byref(sampling), c_size_t(sizeof(sampling)))
        sampling.temperature = 0.0
        request.sampling = ctypes.pointer(sampling)  # ctypes keeps what the request refers to alive
        request.prompt = prompt.encode()
        request.n_predict = n_predict
        return request

    async def stream(self, prompt, n_predict=48, cancel_after=None):
        """Generate, print pieces as they come, and return (text, statistics)."""
        request = self.request(prompt, n_predict)
        request.events = self.hearth.queue
        request_id = c_uint64()
        self.hearth.call("hearth_submit", self.handle, byref(request), byref(request_id))
        events = self.hearth.waiting[request_id.value] = asyncio.Queue()
        pieces = []
        while True:
            kind, value = await events.get()
            if kind == DONE:
                del self.hearth.waiting[request_id.value]
                return "".join(pieces), value
            if kind in (TEXT, TOKEN) and value:
                pieces.append(value)
            if cancel_after is not None and len(pieces) >= cancel_after:
                cancel_after = None
                self.hearth.c.hearth_cancel(self.handle, request_id, None)  # it may have ended already

    def explain(self, prompt):
        why = Explanation(struct_size=sizeof(Explanation))
        self.hearth.call("hearth_explain", self.handle, byref(self.request(prompt, 1)), byref(why))
        return why

    def close(self):
        self.hearth.c.hearth_model_unref(self.handle)


async def main(path, library):
    hearth = Hearth(library)
    print("hearth", hearth.c.hearth_version().decode())
    try:
        model = await hearth.load(path)
        story = ("Once upon a time there was a fox who lived in a deep forest near a river, and one day she went out to "
                 "look for her old friend the bear. ")
        (text, stats), (part, cancelled) = await asyncio.gather(
            model.stream(story + "The fox"), model.stream(story + "The bear", n_predict=400, cancel_after=5))
        print("reply:", text.strip().replace("\n", " "))
        print("stats:", stats)
        print("cancelled after", cancelled["reply"], "tokens:", cancelled["finish"])

        why = model.explain(story.replace("river", "lake") + "The fox")
        print(f"a prompt that differs: {why.known_tokens} of {why.prompt_tokens} tokens are known; it leaves what is "
              f"known at token {why.left_at}, {why.left_text.decode()!r}: {why.detail.decode()}")
        text, stats = await model.stream(story + "The fox")
        print("again:", stats)
        model.close()
    finally:
        hearth.close()


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__.split("\n\n")[1].strip())
    try:
        library = sys.argv[2] if len(sys.argv) == 3 else ctypes.util.find_library("hearth")
        if not library:
            sys.exit("libhearth.so is not found; give its path as the second argument")
        asyncio.run(main(sys.argv[1], library))
    except HearthError as error:
        sys.exit(f"streams.py: {error}")
