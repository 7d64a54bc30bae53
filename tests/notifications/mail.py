"""A mail server for tests. It prints its port, and then each mail as a line of JSON. Mail for `later@...` is refused for now, for `never@...` for good."""

import asyncio
import json
import sys

from aiosmtpd.smtp import SMTP


class Handler:
    async def handle_RCPT(self, server, session, envelope, address, options):
        if address.startswith("later@"):
            return "451 try again later"
        if address.startswith("never@"):
            return "550 no such user"
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server, session, envelope):
        mail = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "text": envelope.content.decode("utf-8", "replace")}
        print(json.dumps(mail), flush=True)
        return "250 OK"


async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: SMTP(Handler(), hostname="localhost"), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Whoever started it closes its input at the end.
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(main())
