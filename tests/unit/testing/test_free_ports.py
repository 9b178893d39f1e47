"""Ports for servers that must know theirs before they start."""

import socket

from danube.testing.processes.free_ports import free_port, passing_ports


def test_ports_asked_for_together_are_different_and_can_be_listened_on() -> None:
    ports = [*passing_ports(5), free_port()]
    assert len(set(ports)) == 6
    for port in ports:
        with socket.create_server(("127.0.0.1", port)):
            pass


def test_a_port_that_is_kept_is_given_to_nobody_else() -> None:
    kept = free_port()
    assert kept not in passing_ports(40)
