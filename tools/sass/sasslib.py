"""What sass, sass-summary and sass-diff share: the CUDA tools, assembling a kernel, reading its SASS."""

import collections
import glob
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
EXIT_DIFFERENT, EXIT_USAGE, EXIT_NO_TOOL = 1, 2, 3

# A .target directive and the real architectures it stands for; the first is the default.
ARCHITECTURES = {"sm_100f": ["sm_100a", "sm_103a"], "sm_100a": ["sm_100a"], "sm_90a": ["sm_90a"]}


class Failure(Exception):
    def __init__(self, message, status=EXIT_USAGE):
        super().__init__(message)
        self.status = status


def tool_folders():
    folders = [os.path.join(os.environ[name], "bin") for name in ("CUDA_HOME", "CUDA_PATH")
               if os.environ.get(name)]
    folders += os.environ.get("PATH", "").split(os.pathsep)
    triton = importlib.util.find_spec("triton")
    for package in (triton.submodule_search_locations or []) if triton else []:
        folders.append(os.path.join(package, "backends", "nvidia", "bin"))
    return folders + ["/usr/local/cuda/bin"]


def find_tool(name, given=None):
    if given:
        path = shutil.which(given)
        if not path:
            raise Failure(f"{given} is no program", EXIT_NO_TOOL)
        return path
    for folder in tool_folders():
        path = os.path.join(folder, name)
        if folder and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    raise Failure(
        f"{name} was not found in CUDA_HOME, CUDA_PATH, PATH, a Python Triton package or "
        f"/usr/local/cuda/bin.\nInstall a CUDA toolkit (packages cuda-nvcc, cuda-nvdisasm, "
        f"cuda-cuobjdump), or: pip install triton", EXIT_NO_TOOL)


def tool_version(path):
    out = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    match = re.search(r"V(\d+\.\d+\.\d+)", out)
    return match.group(1) if match else "unknown"


def listed_configs():
    """The kernels of all configs.def; build/ptx may hold others that are gone."""
    names = set()
    for table in glob.glob(os.path.join(ROOT, "kernels", "*", "configs.def")):
        with open(table, encoding="utf-8") as file:
            names.update(re.findall(r"^[A-Z0-9_]+_CONFIG\((\w+)", file.read(), re.MULTILINE))
    return names


def find_configs(kernel, config=None, folder=None):
    """The expanded .ptx files that KERNEL and --config name: a file, one, or those that begin so."""
    if os.path.isfile(kernel):
        return [kernel]
    folder = folder or os.path.join(ROOT, "build", "ptx")
    if not os.path.isdir(folder):
        raise Failure(f"{folder} is not there: run make first")
    names = sorted(listed_configs() & {name[:-4] for name in os.listdir(folder)})
    if config:
        wanted = [one for one in names if one == config or one == f"{kernel}_{config}"]
    else:
        wanted = [one for one in names if one == kernel]
        wanted = wanted or [one for one in names if one.startswith(kernel)]
    if not wanted:
        name = f"{kernel} --config {config}" if config else kernel
        raise Failure(f"no kernel {name}; kernels in {os.path.relpath(folder)}:\n  "
                      + "\n  ".join(names))
    return [os.path.join(folder, one + ".ptx") for one in wanted]


class Instruction:
    # control: the upper bits of the encoding, or None: which scoreboards it waits for and sets.
    __slots__ = ("address", "predicate", "opcode", "operands", "line", "role", "control")

    def __init__(self, address, text, line, role):
        match = re.match(r"(@!?U?P\w+\s+)?(\S+)\s*(.*)", text)
        self.address, self.line, self.role, self.control = address, line, role, None
        self.predicate = (match.group(1) or "").strip()
        self.opcode, self.operands = match.group(2), match.group(3)

    def text(self):
        return " ".join(part for part in (self.predicate, self.opcode, self.operands) if part)


class Kernel:
    """A kernel assembled for one architecture."""

    def __init__(self, path, arch, registers, spill_bytes, shared, instructions, labels, ptx, roles):
        self.path, self.arch, self.registers, self.spill_bytes = path, arch, registers, spill_bytes
        self.shared, self.instructions, self.labels = shared, instructions, labels
        self.ptx, self.roles = ptx, roles
        self.name = os.path.basename(path)[:-4]


def role_names(ptx):
    """Names of the ROLES table of the kernel's head: consumer0 and consumer1 are one role."""
    names, inside = [], False
    for line in ptx:
        if line.startswith("// ROLES"):
            inside = True
        elif inside and line.startswith("// ") and not line.startswith("//  "):
            break
        elif inside and line.startswith("//   |"):
            cells = [cell.strip() for cell in line.split("|")]
            name = re.sub(r"[\d,]+$", "", cells[2])
            if name and name != "name" and not name.startswith("-") and name not in names:
                names.append(name)
    return names


def roles_of_lines(ptx):
    """The role of each PTX line. A role starts at its label, or at one that begins with its name;
    what stands before all of them is the prologue. A kernel without a table has one role."""
    names = role_names(ptx)
    if not names:
        return ["kernel"] * (len(ptx) + 1), ["kernel"]
    role, result = "prologue", ["prologue"]
    for line in ptx:
        match = re.match(r"\s*([A-Za-z_$][\w$]*):", line)
        if match:
            label = match.group(1)
            starts = [n for n in names if label == n or label.startswith(n + "_")]
            if starts:
                role = starts[0]
            elif label in ("teardown", "exit", "producers_join"):
                role = "teardown"
        result.append(role)
    return result, ["prologue"] + names + ["teardown"]


def assemble(path, arch, ptxas, folder):
    cubin = os.path.join(folder, "kernel.cubin")
    run = subprocess.run([ptxas, f"-arch={arch}", "-lineinfo", "-v", path, "-o", cubin],
                         capture_output=True, text=True, check=False)
    log = run.stdout + run.stderr
    if run.returncode != 0:
        raise Failure(f"{ptxas} does not assemble {path} for {arch}:\n{log}")
    registers = max((int(n) for n in re.findall(r"Used (\d+) registers", log)), default=0)
    spills = sum(int(a) + int(b) for a, b in re.findall(
        r"(\d+) bytes spill stores, (\d+) bytes spill loads", log))
    shared = sum(int(n) for n in re.findall(r"(\d+) bytes smem", log))
    return cubin, registers, spills, shared


def disassemble(cubin, nvdisasm):
    run = subprocess.run([nvdisasm, "-gp", "-hex", "-c", cubin], capture_output=True, text=True, check=False)
    if run.returncode != 0:
        raise Failure(f"{nvdisasm} cannot read the cubin: {run.stderr.strip()}")
    return run.stdout


def read_listing(listing, roles):
    """Instructions and labels ({name: address}) of nvdisasm -gp -hex -c, which prints an
    instruction's lower 64 bits on its line and the upper ones on the next."""
    instructions, labels, waiting, line = [], {}, [], 0
    for text in listing.splitlines():
        match = re.search(r'//## File ".*", line (\d+)', text)
        if match:
            line = int(match.group(1))
            continue
        match = re.match(r"(\.L_x_\d+):", text.strip())
        if match:
            waiting.append(match.group(1))
            continue
        match = re.match(r"\s*/\* 0x([0-9a-f]{16}) \*/\s*$", text)
        if match and instructions:
            instructions[-1].control = int(match.group(1), 16) >> 41
        match = re.match(r"\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;", text)
        if not match:
            continue
        address = int(match.group(1), 16)
        for label in waiting:
            labels[label] = address
        waiting = []
        role = roles[line] if line < len(roles) else roles[-1]
        instructions.append(Instruction(address, match.group(2), line, role))
    return instructions, labels


def load(path, arch=None, ptxas=None, nvdisasm=None):
    # The disassembler first: without it nothing can be shown.
    nvdisasm = find_tool("nvdisasm", nvdisasm)
    ptxas = find_tool("ptxas", ptxas)
    with open(path, encoding="utf-8") as file:
        ptx = file.read().splitlines()
    target = next((line.split()[1].strip(",;") for line in ptx if line.startswith(".target")), "")
    if target not in ARCHITECTURES:
        raise Failure(f"{path}: its .target is \"{target}\", must be one of "
                      + ", ".join(ARCHITECTURES))
    if arch and arch not in ARCHITECTURES[target] + [target]:
        raise Failure(f"{path} is for {', '.join(ARCHITECTURES[target])}, not for {arch}")
    arch = arch or ARCHITECTURES[target][0]
    roles, order = roles_of_lines(ptx)
    with tempfile.TemporaryDirectory() as folder:
        cubin, registers, spills, shared = assemble(path, arch, ptxas, folder)
        instructions, labels = read_listing(disassemble(cubin, nvdisasm), roles)
    # The branch to itself and the padding behind the last instruction are no code.
    while instructions and instructions[-1].opcode in ("NOP", "BRA"):
        instructions.pop()
    if not instructions:
        raise Failure(f"{nvdisasm} shows no instruction of {path}")
    return Kernel(path, arch, registers, spills, shared, instructions, labels, ptx, order)


# Classes of a summary, in the order of its columns. The first pattern that fits an opcode decides.
CLASSES = [
    ("tensor", r"UTC\w*MMA|[A-Z]*GMMA|[HIQDO]MMA|UTCCP"),
    ("tmem", r"LDTM|STTM|UTCATOMSWS|UTCBAR"),
    ("tma", r"UTMA|UBLK|UTMACMDFLUSH"),
    ("barrier", r"SYNCS|BAR|UCGABAR|ERRBAR|MEMBAR|FENCE|CCTL|WARPSYNC|WARPGROUP|ARRIVES|DEPBAR"),
    ("memory", r"LDG|STG|LDS|STS|LDSM|STSM|ATOM|RED|LD|ST|LDC|LDCU|ULDC|QSPC"),
    ("spill", r"LDL|STL"),
    ("move", r"MOV|UMOV|R2UR|IMAD\.MOV|IMAD\.U32|CS2R|R2P|P2R|S2R|S2UR|UP2UR|SEL|USEL"),
    ("float", r"F[A-Z]|H[A-Z]|MUFU|D[A-Z]"),
    ("branch", r"BRA|BRX|BSSY|BSYNC|EXIT|CALL|RET|NANOSLEEP|YIELD|ELECT|VOTE|USETMAXREG"),
]
COMPILED = [(name, re.compile(rf"^(?:{pattern})")) for name, pattern in CLASSES if name != "memory"]
MEMORY = re.compile(r"^(?:LDG|STG|LDS|STS|LDSM|STSM|ATOM\w*|RED\w*|LD|ST|LDC|LDCU|ULDC)(?:\.|$)")
COLUMNS = [name for name, _ in CLASSES] + ["other"]


def class_of(opcode):
    if MEMORY.match(opcode):
        return "memory"
    for name, pattern in COMPILED:
        if pattern.match(opcode):
            return name
    return "other"


def counts_by_role(kernel):
    result = {role: collections.Counter() for role in kernel.roles}
    for instruction in kernel.instructions:
        result.setdefault(instruction.role, collections.Counter())[
            class_of(instruction.opcode)] += 1
    return result


def main_loop(kernel):
    """(first, last) address of the innermost loop with the most tensor operations, or None."""
    best, best_key = None, None
    for branch in kernel.instructions:
        if not branch.opcode.startswith("BRA"):
            continue
        match = re.search(r"\.L_x_\d+", branch.operands)
        start = kernel.labels.get(match.group(0)) if match else None
        if start is None or start >= branch.address:
            continue
        body = [i for i in kernel.instructions if start <= i.address <= branch.address]
        tensor = sum(class_of(i.opcode) == "tensor" for i in body)
        if not tensor:
            continue
        # An outer loop has at least its inner loop's operations: density finds the inner one.
        key = tensor / len(body)
        if best_key is None or key > best_key:
            best, best_key = (start, branch.address), key
    return best


def most_per_mma(kernel):
    """What the head of the kernel allows, "at most N instructions an MMA", or None."""
    for line in kernel.ptx:
        match = re.match(r"//   Main loop.*: at most (\d+(?:\.\d+)?) instructions an MMA\.", line)
        if match:
            return float(match.group(1))
    return None


def per_mma(kernel):
    """Instructions of the main loop for each MMA in it."""
    loop = main_loop(kernel)
    body = [i for i in kernel.instructions if loop and loop[0] <= i.address <= loop[1]]
    mmas = sum(class_of(i.opcode) == "tensor" and "MMA" in i.opcode for i in body)
    if not mmas:
        raise Failure(f"{kernel.path}: its head limits the main loop, which has no MMA")
    return len(body) / mmas


def over_limits(kernels):
    """A sentence for each kernel whose main loop is longer than its head allows."""
    return [f"{k.name}: {per_mma(k):.2f} instructions an MMA in the main loop, its head allows {most}"
            for k in kernels if (most := most_per_mma(k)) is not None and per_mma(k) > most]


def early_arrivals(kernel):
    """(arrival, loads): arrivals on mbarriers that may be done while loads from shared memory,
    ahead of them in the code, are not, since nobody has waited for those loads' scoreboards. An
    asynchronous copy that waits for such a barrier may overwrite what the loads have still to read
    (an H200 did); an ordinary store behind the barrier may not. A scan in the order of addresses:
    what a branch leaves pending is not followed. Control bits of sm_90 and sm_100: 4 stall, 1
    yield, 3 scoreboard of the result, 3 of the operands, 6 to wait for."""
    found, pending = [], []
    for instruction in kernel.instructions:
        if instruction.control is None:
            continue
        wait = instruction.control >> 11 & 63
        pending = [(board, load) for board, load in pending if not wait >> board & 1]
        board, opcode = instruction.control >> 5 & 7, instruction.opcode
        if pending and opcode.startswith("SYNCS.ARRIVE") and "A1T0" in opcode:
            found.append((instruction, [load for _, load in pending]))
        elif re.match(r"LDS(M|\.|$)", opcode) and board != 7:
            pending.append((board, instruction))
        elif re.match(r"BRA|EXIT|RET", opcode):
            pending = []
    return found


def summary_lines(kernel):
    """Tab-separated: a line for the kernel, one for each role that has instructions."""
    loop = main_loop(kernel)
    length = sum(loop[0] <= i.address <= loop[1] for i in kernel.instructions) if loop else 0
    lines = [f"{kernel.name}\t{kernel.arch}\tregisters {kernel.registers}\t"
             f"spill bytes {kernel.spill_bytes}\tinstructions {len(kernel.instructions)}\t"
             f"main loop {length}"
             + (f"\tan MMA {per_mma(kernel):.2f}" if most_per_mma(kernel) is not None else "")]
    for role, counts in counts_by_role(kernel).items():
        if counts:
            cells = [f"{name} {counts[name]}" for name in COLUMNS if counts[name]]
            lines.append(f"{kernel.name}\t{role}\t" + "\t".join(cells))
    return lines


def run(main):
    """Calls main and turns failures into a message and an exit status."""
    try:
        status = main()
        sys.stdout.flush()
        sys.exit(status)
    except Failure as failure:
        print(f"{os.path.basename(sys.argv[0])}: {failure}", file=sys.stderr)
        sys.exit(failure.status)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
