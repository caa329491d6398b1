#!/usr/bin/env python3
"""A way to the API server, as a load balancer or a NAT gateway is one: `way.py PORT TO` passes connections to PORT on to TO.

On SIGUSR1 it forgets those that there are, as such things do with connections that have been idle: what comes by them goes
nowhere, and neither side is told. New ones are passed on.
"""

import asyncio
import signal
import sys

#: Both ends of connections that were forgotten: they stay open.
FORGOTTEN = []


class Way:
    """Connections by their tasks."""

    def __init__(self, to):
        self.to, self.passing = to, {}

    async def come(self, reader, writer):
        """Passes one connection on until either side closes it."""
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self.to)
        except OSError:
            writer.close()
            return
        task = asyncio.current_task()
        self.passing[task] = (writer, back)
        try:
            await asyncio.wait(
                [asyncio.ensure_future(pump(reader, back)), asyncio.ensure_future(pump(there, writer))],
                return_when=asyncio.FIRST_COMPLETED,
            )
        finally:
            if self.passing.pop(task, None):
                writer.close()
                back.close()

    def forget(self):
        """Of all that is passed on now nothing arrives any more."""
        for ends in self.passing.values():
            FORGOTTEN.append(ends)
            for end in ends:
                end.transport.pause_reading()
        self.passing.clear()


async def pump(source, sink):
    """What comes of one side goes to the other."""
    try:
        while some := await source.read(65536):
            sink.write(some)
            await sink.drain()
    except OSError:
        pass


async def main(port, to):
    way = Way(to)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, way.forget)
    server = await asyncio.start_server(way.come, "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1]), int(sys.argv[2])))
