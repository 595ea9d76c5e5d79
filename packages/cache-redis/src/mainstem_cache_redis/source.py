"""Source `redis`: streams of Redis, through a consumer group and the ingress log."""

from __future__ import annotations

from mainstem import Level, OptionError, Shown, SourceCapabilities
from mainstem_ingress import IngressSource, Receiver

from mainstem_cache_redis.options import RedisSourceOptions

_SHOWN = "packages/cache-redis/tests/test_redis_source_conformance.py"


class RedisSource(IngressSource):
    """Takes the entries of streams by a consumer group; acknowledges what is safe on disk."""

    options: RedisSourceOptions
    loses = True  # streams are trimmed

    def __init__(self, options: RedisSourceOptions) -> None:
        super().__init__(options)
        if options.key is not None and options.key == options.value:
            raise OptionError("is the field of `value` too", option="key")
        if options.format == "messages":
            for name in ("value", "key"):
                if getattr(options, name) is not None:
                    raise OptionError("goes with `format: fields` only", option=name)

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]  # options decide
        """Nothing that the streams keep is lost; an entry that is given again is known by its id."""
        options = self.options
        remembers = bool(options.duplicates_within)
        assumptions = [
            *options.assumed(remembers=remembers),
            "Redis keeps what it has answered (see `appendfsync`), and a replica that is promoted has it",
            "the streams keep each entry until it was taken; what is trimmed comes out of `lost`",
            "nobody else moves the group (`XGROUP SETID`) or acknowledges its entries",
        ]
        if options.format == "messages":
            assumptions.append("the field `id` is one that the sink `redis` has written")
        if options.receivers == 1 and len(options.streams) == 1:
            assumptions.append("nobody else reads by the group, whose entries would come late")
        return SourceCapabilities(
            ordered=options.receivers == 1 and len(options.streams) == 1,
            may_duplicate=not remembers,
            why="" if remembers else "Redis gives an entry again when its acknowledgement is lost",
            assumptions=tuple(assumptions),
            shown=Shown(Level.EXACTLY_ONCE if remembers else Level.AT_LEAST_ONCE, _SHOWN),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_cache_redis.receiver import RedisReceiver

        return RedisReceiver
