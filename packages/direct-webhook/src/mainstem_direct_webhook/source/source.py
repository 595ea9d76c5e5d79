"""Source `webhook`: an HTTP server, through the ingress log."""

from __future__ import annotations

from mainstem import Level, OptionError, Shown, SourceCapabilities, write_duration
from mainstem_ingress import IngressSource, Receiver

from mainstem_direct_webhook.source.options import WebhookSourceOptions
from mainstem_direct_webhook.source.verify_options import Timed


class WebhookSource(IngressSource):
    """Takes what is sent by HTTP; answers with 2xx when it is safe on disk."""

    options: WebhookSourceOptions

    def __init__(self, options: WebhookSourceOptions) -> None:
        super().__init__(options)
        if options.ids == "always" and not options.duplicates_within:
            raise OptionError("is 0, so `ids: always` would not help", option="duplicates_within")
        for path, each in options.paths.items() if options.ids == "always" else ():
            window = each.verify.window if isinstance(each.verify, Timed) else None
            if window is not None and options.duplicates_within < window:
                raise OptionError(
                    f"is less than twice the `tolerance` of {path!r}: a request could be let in, and "
                    "stored, a second time",
                    option="duplicates_within",
                    hint=f"Write {write_duration(window)} or more, or a shorter `tolerance`.",
                )

    @property
    def capabilities(self) -> SourceCapabilities:  # type: ignore[override]
        """What was answered with 2xx is kept; what can come twice depends on ids."""
        options = self.options
        horizon = write_duration(options.duplicates_within)
        exact = options.ids == "always"
        dropping = options.ids != "never" and bool(options.duplicates_within)
        assumptions = [
            "the disk keeps what it says it has written",
            "senders send again what was not answered with 2xx",
        ]
        if dropping:
            assumptions.append("no two messages to one path have one id")
        if exact:
            assumptions.append(
                f"a message comes again with the id that it had, within {horizon}, and before "
                f"{options.duplicates_most:,} others"
            )
        return SourceCapabilities(
            may_duplicate=not exact,
            why=""
            if exact
            else "a sender that does not hear the answer sends again; copies with an id are dropped "
            f"for {horizon}. If all have one, write `ids: always`"
            if dropping
            else "a sender that does not hear the answer sends again",
            assumptions=tuple(assumptions),
            shown=Shown(
                Level.EXACTLY_ONCE if exact else Level.AT_LEAST_ONCE,
                "packages/direct-webhook/tests/test_webhook_source_conformance.py",
            ),
        )

    def receiver(self) -> type[Receiver]:
        from mainstem_direct_webhook.source.receiver import WebhookReceiver

        return WebhookReceiver
