"""SMTP server for tests. Writes each message to a file of its own in the directory that is its second argument."""

import itertools
import os
import sys

from aiosmtpd.controller import Controller


class Sink:
    def __init__(self, directory):
        self.directory = directory
        self.numbers = itertools.count(len(os.listdir(directory)))

    async def handle_DATA(self, server, session, envelope):
        name = os.path.join(self.directory, f"{next(self.numbers):06}")
        with open(name + ".part", "wb") as file:
            file.write(("\n".join(envelope.rcpt_tos) + "\n").encode())
            file.write(envelope.content)
        os.rename(name + ".part", name)
        return "250 accepted"


controller = Controller(Sink(sys.argv[2]), hostname="127.0.0.1", port=int(sys.argv[1]))
controller.start()
# Ends with the test.
sys.stdin.read()
controller.stop()
