#include "runtime/src/status.hpp"
#include "tests/support/catch.hpp"

#include <set>
#include <string>
#include <thread>

using namespace warpline;

TEST_CASE("every status has its own name", "[host][status]") {
  std::set<std::string> names;
  for (int i = WL_SUCCESS; i <= WL_ERROR_INTERNAL; ++i)
    names.insert(wl_status_string(static_cast<wl_status>(i)));
  CHECK(names.size() == WL_ERROR_INTERNAL + 1u);
  CHECK(names.count("WL_ERROR_MISALIGNED") == 1);
  CHECK(wl_status_string(static_cast<wl_status>(99)) == std::string("WL_ERROR_UNKNOWN"));
}

TEST_CASE("a message carries the entry and belongs to its thread", "[host][status]") {
  const wl_status status =
      api("wl_example", [] { return fail(WL_ERROR_LAUNCH, "K = %d must be %s", 7, "even"); });
  CHECK(status == WL_ERROR_LAUNCH);
  CHECK(wl_last_error() == std::string("wl_example: K = 7 must be even"));

  std::string other = "unset";
  std::thread([&] { other = wl_last_error(); }).join();
  CHECK(other.empty());

  CHECK(api("wl_example", [] { return WL_SUCCESS; }) == WL_SUCCESS);
  CHECK(wl_last_error() == std::string("wl_example: K = 7 must be even"));
  CHECK(current_entry() == std::string());
}

TEST_CASE("nested entries name the inner one and restore the outer", "[host][status]") {
  api("wl_outer", []() -> wl_status {
    api("wl_inner", [] { return fail(WL_ERROR_JIT, "inner"); });
    CHECK(wl_last_error() == std::string("wl_inner: inner"));
    return fail(WL_ERROR_JIT, "outer");
  });
  CHECK(wl_last_error() == std::string("wl_outer: outer"));
}

TEST_CASE("no exception leaves an entry", "[host][status]") {
  CHECK(api("wl_example", []() -> wl_status { throw std::bad_alloc(); }) == WL_ERROR_OUT_OF_MEMORY);
  CHECK(wl_last_error() == std::string("wl_example: host memory is exhausted"));
  CHECK(api("wl_example", []() -> wl_status { throw std::string("odd"); }) == WL_ERROR_INTERNAL);
  CHECK(api("wl_example", []() -> wl_status { throw std::length_error("too long"); }) ==
        WL_ERROR_INTERNAL);
  CHECK(wl_last_error() == std::string("wl_example: too long"));
}

TEST_CASE("a struct_size that differs is refused with both sizes", "[host][status]") {
  CHECK(check_struct_size("wl_plan_info", 280, 280) == WL_SUCCESS);
  for (const size_t size : {size_t{0}, size_t{272}, size_t{288}, SIZE_MAX}) {
    CHECK(check_struct_size("wl_plan_info", size, 280) == WL_ERROR_ABI);
    CHECK_THAT(wl_last_error(),
               wltest::ContainsSubstring(std::to_string(size)) && wltest::ContainsSubstring("280"));
  }
}

TEST_CASE("the library's version is the header's", "[host][status]") {
  CHECK(wl_version() == WL_VERSION);
}
