"""Platform files: what is read, and what is refused."""

from __future__ import annotations

import tarfile

import pytest

from gridtune.core.usage import NodePower
from gridtune.errors import SimulationError
from gridtune.systems.shutdown.simulator.platform import Platform, read_platform

HOST = '<host id="{id}" speed="{speed}"{core}>{props}</host>'
WATTS = '<prop id="watt_per_state" value="9:9,95.0:190.0,125.0:125.0,101.0:101.0"/>'
SLEEP = '<prop id="sleep_pstates" value="0:3:2"/>'
SPEED = "0.001f, 1000000.0f, 1.0f, 0.3333333333333333f"


def write(path, hosts, zone="", speed=SPEED, core="", props=WATTS + SLEEP):
    lines = [HOST.format(id="master_host", speed="1f", core="", props="")]
    lines += [HOST.format(id=i, speed=speed, core=core, props=props) for i in range(hosts)]
    path.write_text(f'<?xml version="1.0"?>\n<platform><zone>{zone}{"".join(lines)}</zone></platform>')
    return path


def test_cores_make_nodes(tmp_path):
    file = write(tmp_path / "p.xml", 8, zone='<prop id="cores_per_node" value="4"/>')
    assert read_platform(file, time_unit=60, step=60) == Platform(2, 4)


def test_hosts_are_nodes_where_they_have_cores(tmp_path):
    file = write(tmp_path / "p.xml", 3, core=' core="16"')
    assert read_platform(file) == Platform(3, 16)


def test_newer_files_write_wattage(tmp_path):
    file = write(tmp_path / "p.xml", 1, props=WATTS.replace("watt_per", "wattage_per") + SLEEP)
    assert read_platform(file) == Platform(1, 1)


CLUSTER = '<cluster id="{id}" prefix="{id}" suffix="" radical="{radical}" {attributes}>{props}</cluster>'
FRONT = CLUSTER.format(
    id="f", radical="0-0", attributes='speed="1Gf"', props='<prop id="role" value="master"/>'
)
OTHER_ORDER = "9:9,125.0:125.0,101.0:101.0"


def test_a_cluster_element_is_as_many_hosts_as_its_radical_numbers(tmp_path):
    """Switching on takes 1/1.01 minutes and off 1/0.334, rounded up."""
    props = f'<prop id="watt_per_state" value="95.0:190.0, {OTHER_ORDER}"/>'
    props += '<prop id="sleep_pstates" value="1:3:2"/>'
    nodes = CLUSTER.format(
        id="n", radical="0-3", attributes='speed="1.0Mf, 0.0f, 1.01f, 0.334f"', props=props
    )
    file = tmp_path / "p.xml"
    file.write_text(f"\n<?xml version='1.0'?><platform><zone>{FRONT}<zone>{nodes}</zone></zone></platform>")
    power = NodePower(95, 190, 9, 101, 125, switch_off_time=3, switch_on_time=1)
    assert read_platform(file, time_unit=60, step=60) == Platform(4, 1, power)


def test_clusters_cabinets_and_hosts_make_one_cluster(tmp_path):
    attributes = f'speed="{SPEED}" core="8"'
    parts = [CLUSTER.format(id="a", radical="0-3,7, 9-12", attributes=attributes, props=WATTS + SLEEP)]
    # What names a rack, or how numbers are spaced, makes no other kind.
    wattage = WATTS.replace("watt_per", "wattage_per").replace(",", ", ") + '<prop id="rack" value="2"/>'
    parts += [f'<host id="x" {attributes.replace("1.0f", "1.0")}>{wattage}{SLEEP}</host>']
    parts += ['<host id="disk" speed="0f"><prop id="role" value="storage"/></host>', FRONT]
    file = tmp_path / "p.xml"
    file.write_text(f"<platform><AS>{''.join(parts)}</AS></platform>")
    assert read_platform(file, time_unit=60, step=60) == Platform(10, 8)
    cabinet = parts[1] + f'<cabinet id="c" prefix="b" suffix="" radical="0-9" {attributes}/>'
    with pytest.raises(SimulationError, match="hosts differ") as fault:
        read_platform(_written(tmp_path, cabinet))
    assert fault.value.hint == "they differ in watts, sleep"
    file.write_text(file.read_text().replace('core="8">', 'core="4">', 1))
    with pytest.raises(SimulationError, match=r"hosts differ \(2 kinds\)") as fault:
        read_platform(file)
    assert fault.value.hint == "they differ in cores"


def _written(folder, hosts):
    (folder / "c.xml").write_text(f"<platform><zone>{hosts}</zone></platform>")
    return folder / "c.xml"


@pytest.mark.parametrize("radical", ["", "a", "3-1", "0-3,3", "0-3,2", "1;2", "-4", "0-999999999"])
def test_a_radical_numbers_each_host_once(tmp_path, radical):
    file = tmp_path / "p.xml"
    cluster = CLUSTER.format(id="n", radical=radical, attributes=f'speed="{SPEED}"', props=WATTS + SLEEP)
    file.write_text(f"<platform>{cluster}</platform>")
    with pytest.raises(SimulationError, match=r"does not number hosts|too many") as fault:
        read_platform(file)
    assert fault.value.field == "radical"


@pytest.mark.parametrize(
    ("speeds", "time_unit", "off", "on"),
    [
        ("1f, 100Mf, 0.5f, 0.25f", 60, 4, 2),
        ("1f, 1Gf, 0.01f, 0.005f", 1, 4, 2),  # seconds: 200 and 100 of them are 4 and 2 minutes begun
        ("1f, 1e9f, 10f, 20f", 60, 1, 1),  # at least a minute
    ],
)
def test_switching_takes_whole_minutes(tmp_path, speeds, time_unit, off, on):
    power = read_platform(write(tmp_path / "p.xml", 1, speed=speeds), time_unit=time_unit, step=60).power
    assert (power.switch_off_time, power.switch_on_time) == (off, on)


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("<platform><zone>", "is not XML"),
        ("<platform/>", "has no hosts"),
        ('<platform><host id="0" speed="1f"/></platform>', "watt_per_state"),
        (f'<platform><host id="0" speed="1f">{WATTS}</host></platform>', "sleep_pstates"),
        (f'<platform><host id="0" speed="1f">{WATTS}{SLEEP}</host></platform>', "do not match"),
        (f'<platform><host id="0" speed="x">{WATTS}{SLEEP}</host></platform>', "do not match"),
        ('<platform><host id="0" speed="1f"/><host id="1" speed="2f"/></platform>', "hosts differ"),
    ],
)
def test_what_is_no_platform_is_told(tmp_path, content, told):
    file = tmp_path / "p.xml"
    file.write_text(content)
    with pytest.raises(SimulationError, match=told) as fault:
        read_platform(file)
    assert "p.xml" in str(fault.value)


def test_uneven_nodes_are_refused(tmp_path):
    file = write(tmp_path / "p.xml", 7, zone='<prop id="cores_per_node" value="4"/>')
    with pytest.raises(SimulationError, match="7 cores do not make whole nodes of 4"):
        read_platform(file)
    with pytest.raises(SimulationError, match="cannot be read"):
        read_platform(tmp_path / "none.xml")


def test_numbers_are_checked():
    with pytest.raises(SimulationError, match="finite number of watts"):
        NodePower(idle=-1)
    with pytest.raises(SimulationError, match="at least one step"):
        Platform(power=NodePower(switch_on_time=0))
    with pytest.raises(SimulationError, match="at least 1"):
        Platform(0, 4)


@pytest.mark.real_traces
def test_the_authors_platform_is_the_default(trace_dir, tmp_path):
    archive = trace_dir / "grid5000" / "taurus-days.tar.xz"
    if not archive.exists():
        pytest.skip("no Taurus days")
    with tarfile.open(archive) as packed:
        member = next(each for each in packed.getmembers() if each.name.endswith("platform.xml"))
        content = packed.extractfile(member)
        assert content is not None
        (tmp_path / "platform.xml").write_bytes(content.read())
    assert read_platform(tmp_path / "platform.xml", time_unit=60, step=60) == Platform()
