// ptx/expand.awk: what it makes of constant expressions, with every awk that this machine has.
#include "tests/support/catch.hpp"
#include "tests/support/child.hpp"
#include "tests/support/source_tree.hpp"
#include "tests/support/temporary.hpp"

#include <string>

using wltest::run_child;

TEST_CASE("constants of kernels are folded to all their 32 bits", "[expand]") {
  const wltest::TemporaryDirectory directory;
  const std::string text = directory / "kernel.txt";
  wltest::write_text(text, "# 1 \"kernels/a.ptx\"\n"
                           "mov.b32 a, (0xFFFFFFFF / 1);\n"
                           "mov.b32 a, (0xFFFFFFFF / 8);\n"
                           "mov.b32 a, (1 << 31);\n"
                           "mov.b32 a, (0xFFFFFFFF);\n"
                           "mov.b64 a, (3 * 0x80000000 + (1 << 3));\n"
                           "mov.b32 a, (4 - 2147483652);\n"
                           "mov.b32 a, (7 / 2 * 3);\n"
                           "mov.b32 a, (2 - 2);\n");
  const std::string right = "mov.b32 a, 4294967295;\n"
                            "mov.b32 a, 536870911;\n"
                            "mov.b32 a, 2147483648;\n"
                            "mov.b32 a, 4294967295;\n"
                            "mov.b64 a, 6442450952;\n"
                            "mov.b32 a, -2147483648;\n"
                            "mov.b32 a, 9;\n"
                            "mov.b32 a, 0;\n";
  for (const std::string awk : {"awk", "mawk", "gawk", "busybox"}) {
    if (run_child({"sh", "-c", "command -v " + awk}).status != 0) continue;
    INFO(awk);
    const wltest::ChildResult result =
        run_child({"sh", "-c",
                   awk + (awk == "busybox" ? " awk" : "") + " -f " +
                       wltest::source_file("ptx/expand.awk") + " " + text});
    CHECK(result.status == 0);
    CHECK(result.out == right);
  }
}
