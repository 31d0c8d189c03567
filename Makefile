# warpline. `make help` lists what can be made.
#   CXX=g++      compiler, C++20        DEBUG=1       no optimisation, for debuggers: into build/debug
#   CUBINS=0|1   kernels as machine code beside the PTX; default: 1 where ptxas is found
#   PCH=0|1      standard headers precompiled; default: 1 where CXX is g++ itself
#   UNITS=0|1    files of a folder compiled together; default: 1, with COVERAGE=1 0
#   SANITIZE=address,undefined | thread  builds into build/<sanitizer>

CXX ?= g++
AR ?= ar
# Looked for once, not at each use.
ifeq ($(origin PTXAS),undefined)
PTXAS := $(shell tools/find_ptxas.sh)
endif
CUBINS ?= $(if $(PTXAS),1,0)
V ?= 0
ifeq ($(V),0)
Q := @
endif

comma := ,
BUILD := build
ifneq ($(SANITIZE),)
BUILD := build/$(firstword $(subst $(comma), ,$(SANITIZE)))
else ifeq ($(COVERAGE),1)
BUILD := build/coverage
else ifeq ($(DEBUG),1)
BUILD := build/debug
endif

# No rules but these: make would look for a built-in one for each of a thousand files at each start.
MAKEFLAGS += -r
# All cores, unless the caller says otherwise.
ifeq ($(filter -j%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || echo 2)
endif

OPT := -O2
ifeq ($(DEBUG),1)
OPT := -O0 -g
endif
# -Wrestrict misfires on std::string in g++ 12 (GCC bug 105651). clang++ knows neither it nor
# [[gnu::noipa]] and GCC ivdep, which only make the virtual GPU faster; and it warns of every format
# that is an argument of a template.
CLANG_WARN := -Wall -Wextra -Wno-format-security $(addprefix -Wno-unknown-,attributes pragmas warning-option)
WARN := $(if $(findstring clang,$(CXX)),$(CLANG_WARN),-Wall -Wextra -Wno-restrict)
CPPFLAGS += -I. -Iruntime/include
# No contraction: the virtual GPU and the references round where the PTX rounds.
CXXFLAGS += -std=c++20 $(OPT) $(WARN) -fPIC -fvisibility=hidden -ffp-contract=off -MMD -MP
LDLIBS := -ldl -pthread
ifneq ($(SANITIZE),)
CXXFLAGS += -g -fsanitize=$(SANITIZE) -fno-omit-frame-pointer
LDFLAGS += -fsanitize=$(SANITIZE)
endif
ifeq ($(COVERAGE),1)
CXXFLAGS += --coverage -fprofile-update=prefer-atomic
LDFLAGS += --coverage
endif
# The emulator's handlers are vector loops; without errno and traps their selects are blends. What
# reads a kernel's text, answers driver calls or draws runs once a kernel or call, and what reads commands
# once a process: built quickly, and more quickly. What lists configurations, too, is small.
VGPU_FLAGS := -O3 -fno-math-errno -fno-trapping-math
ONCE := $(foreach room,driver cudart forms isa ptx run trace,tools/vgpu/$(room)/%)
ONCE_FLAGS := -O1
FEW := tools/cli/% tools/stamps/%
FEW_FLAGS := -Og
TABLES := kernels/%_configs.cpp
TABLES_FLAGS := -Os
ifeq ($(DEBUG),1)
VGPU_FLAGS := -O0
ONCE_FLAGS := -O0
FEW_FLAGS := -O0
TABLES_FLAGS := -O0
endif

OPERATIONS := $(notdir $(patsubst %/,%,$(dir $(wildcard kernels/*/configs.def))))
KERNELS := $(foreach op,$(OPERATIONS),$(shell awk -v list=1 -f kernels/configs.awk kernels/$(op)/configs.def | awk '{print $$1}'))
PTX := $(KERNELS:%=$(BUILD)/ptx/%.ptx)

LIB_SOURCES := $(wildcard runtime/src/*.cpp) $(wildcard kernels/*/*.cpp)
# forms/ is the main of its own small program.
VGPU_SOURCES := $(filter-out tools/vgpu/forms/% tools/vgpu/run/% tools/vgpu/cudart/%,$(wildcard tools/vgpu/*/*.cpp))
VGPU_CORE := $(filter-out tools/vgpu/driver/%,$(VGPU_SOURCES))
CLI_SOURCES := $(wildcard tools/cli/*.cpp tools/stamps/*.cpp) tools/vgpu/trace/export.cpp tools/vgpu/trace/head.cpp
REFERENCE_SOURCES := $(wildcard tests/reference/*.cpp)
SUPPORT_SOURCES := $(filter-out tests/support/fake_driver.cpp,$(wildcard tests/support/*.cpp))
SUITES := host virtual hardware

.PHONY: bench all help lib shared vgpu demo test test-host test-virtual hardware-test check-ptx lint format clean \
        mutation sweep false-alarms planted kernel-coverage try deps suites install uninstall sass-check coverage \
        timeline report sanitize fuzz vgpu-driver vgpu-speed
all: lib $(BUILD)/warpline $(BUILD)/libvgpu.so vgpu-driver $(BUILD)/vgpu-forms $(BUILD)/vgpu

help:
	@echo "make              library, virtual GPU and command-line program into $(BUILD)/"
	@echo "make shared       $(BUILD)/libwarpline.so, for FFIs"
	@echo "make demo         the flagship, 256 x 4096 x 7168 NVFP4 dual GEMM, on a virtual B200"
	@echo "make test         all tests that need no GPU, about 14 minutes on two cores; installs"
	@echo "                  Catch2 where it is missing"
	@echo "make try OP=linear  the rules and the drawn problems of one operation, a folder of kernels/; a minute or two"
	@echo "make hardware-test  tests on the GPU of this machine; skipped and counted without one"
	@echo "make mutation     breaks the kernels' instructions, one at a time: who notices? Hours on"
	@echo "                  two idle cores from nothing; goes on where it was cut off"
	@echo "make sweep        every Blackwell configuration of the dual GEMM at all edges of M, N, K, in 9 orders;"
	@echo "                  half an hour"
	@echo "make false-alarms  every kernel as it is, under many schedules: nobody may say a word; an hour"
	@echo "make planted      faults planted in other compilers' kernels: who notices? A minute"
	@echo "make kernel-coverage  which branches of the kernels' PTX drawn problems take; an hour or more"
	@echo "make vgpu-speed   how fast the virtual GPU is on this machine"
	@echo "make fuzz         libFuzzer on PTX text, kernels and driver calls, FUZZ_SECONDS=60 each, 3 minutes"
	@echo "                  in all; clang++"
	@echo "make bench        times the operations and the host's side on the GPU of this machine; skipped"
	@echo "                  without one"
	@echo "make check-ptx    assembles every kernel with ptxas: spills, registers, warnings; 6 minutes"
	@echo "make sass-check   compares each kernel's machine code with tests/golden"
	@echo "make lint         clang-format, cppcheck, shellcheck"
	@echo "make report       one file on how it does on this machine, to send back; on the virtual GPU"
	@echo "                  without a GPU, as a rehearsal"
	@echo "make sanitize     compute-sanitizer over small problems on the GPU of this machine; skipped"
	@echo "                  without one"
	@echo "make coverage     builds with counters, runs the tests and prints the lines they reach, by room;"
	@echo "                  longer than make test"
	@echo "make timeline     draws tools/trace/b200.svg anew"
	@echo "make format       rewrites the C++ files as clang-format wants them"
	@echo "make install      headers, libraries, warpline, pkg-config and CMake files; PREFIX=, DESTDIR=;"
	@echo "                  about four minutes on two cores from nothing"
	@echo "make uninstall    removes what make install wrote, with the same PREFIX= and DESTDIR="
	@echo "make clean        removes $(BUILD)/"
	@echo "options: DEBUG=1, SANITIZE=address,undefined, CUBINS=0, UNITS=0, V=1, CXX=..., -jN"
	@echo "for a part of a target's work, options of its program: MUTATION_FLAGS, SEMANTIC_FLAGS, FALSE_ALARMS_FLAGS,"
	@echo "  SWEEP_FLAGS, BENCH_FLAGS, HOST_COST_FLAGS, DRIVER_COST_FLAGS, REPORT_FLAGS, SANITIZE_FLAGS,"
	@echo "  SASS_FLAGS, TRY_FLAGS, PLANTED_FLAGS, KERNEL_COVERAGE_FLAGS: make sweep SWEEP_FLAGS=\"--configs dual_gemm_sm100_n64_f16 --sizes 2\""

# ---- standard headers ------------------------------------------------------------------------------

# Reading them is half of the work on most files, so g++ does that once. Files include what they use
# all the same: ccache and other compilers get them as they are.
STD_HEADERS := algorithm functional map memory mutex string unordered_map vector
PCH ?= $(if $(word 2,$(CXX)),0,$(if $(filter g++ g++-% %-g++,$(notdir $(CXX))),1,0))
ifeq ($(PCH),1)
# g++ forgets that what it reads so is a system header, and false alarms of std::string come through.
CXXFLAGS += -Wno-array-bounds -Wno-stringop-overflow -Wno-stringop-overread
STD := std
endif
# The virtual GPU's own of which most of its files see all.
VGPU_HEADERS := tools/vgpu/exec/cluster.hpp
$(BUILD)/std/std.hpp.gch: INCLUDES := $(STD_HEADERS:%=<%>)
$(BUILD)/std/vgpu.hpp.gch: INCLUDES := $(STD_HEADERS:%=<%>) $(VGPU_HEADERS:%="%")
$(BUILD)/std/%.hpp.gch:
	@mkdir -p $(@D)
	@echo "  CXX  $(@:.gch=)"
	$(Q)printf '#include %s\n' $(INCLUDES:%='%') > $(@:.gch=)
	$(Q)$(CXX) $(CPPFLAGS) $(CXXFLAGS) -MF $(@:.gch=.d) -MT $@ -x c++-header $(@:.gch=) -o $@.tmp && mv $@.tmp $@
precompiled = $(STD:%=$(BUILD)/std/$(if $(filter tools/vgpu/%,$(1)),vgpu,%).hpp)

# ---- units -----------------------------------------------------------------------------------------

# Files that are compiled as one: what g++ reads and instantiates anew for each, half of its work on most of
# them, it then does once. They share what is local to a file, so a unit takes each name once. What
# stands in no unit is compiled alone; UNITS=0 compiles every file so.
UNITS ?= $(if $(filter 1,$(COVERAGE)),0,1)
# $(1) folder, $(2) the unit's name, $(3) files
define unit
$(BUILD)/obj/$(1)/unit_$(2).o: private FILES := $(3:%=$(1)/%.cpp)
$(BUILD)/obj/$(1)/unit_$(2).o: $(3:%=$(1)/%.cpp) $(patsubst %,%.gch,$(call precompiled,$(1)/))
UNIT_OBJECTS += $(BUILD)/obj/$(1)/unit_$(2).o
$(foreach file,$(3),$(eval unit_of_$(1)/$(file).cpp := $(1)/unit_$(2).cpp))
endef
add_unit = $(if $(filter 1,$(UNITS)),$(eval $(call unit,$(1),$(2),$(3))))
$(call add_unit,kernels/dual_gemm,api,dual_gemm dual_gemm_rules)
$(call add_unit,kernels/gemm,common,candidates choice operand problem rules)
$(call add_unit,kernels/gemm,sm100,sm100_cost sm100_decode sm100_plan)
$(call add_unit,kernels/gemm,sm90,sm90_cost sm90_pack sm90_plan)
$(call add_unit,kernels/grouped,api,grouped grouped_rules)
$(call add_unit,kernels/linear,api,linear linear_rules)
$(call add_unit,kernels/moe,api,moe parts)
$(call add_unit,kernels/norm_linear,api,norm_linear norm_linear_rules)
$(call add_unit,kernels/quantize,api,quantize quantize_rules)
$(call add_unit,runtime/src,api,api context graph_runs kept_run launch log plan status strided)
$(call add_unit,runtime/src,driver,driver dump images module reachable scale_layout tensor_map)
$(call add_unit,tests/reference,products,compare dual_gemm elements inputs linear moe)
$(call add_unit,tests/reference,values,grouped numerics quantize)
$(call add_unit,tools/cli,devices,configs device devices doctor report rules)
$(call add_unit,tools/cli,files,dual_gemm_files gemm_files moe_files product_files quantize_files safetensors)
$(call add_unit,tools/cli,layers,moe norm_linear quantize)
$(call add_unit,tools/cli,output,image json output_file run stats)
$(call add_unit,tools/cli,products,dual_gemm gemm grouped make_example product types)
$(call add_unit,tools/stamps,all,decode session stamp)
$(call add_unit,tools/vgpu/check,findings,barriers deadlock finding grid_races hub options rules)
$(call add_unit,tools/vgpu/check,memory,definedness definedness_memory ledger picture traits)
$(call add_unit,tools/vgpu/check,races,races races_flags races_sync)
$(call add_unit,tools/vgpu/driver,code,fatbin function jit link module unpack)
$(call add_unit,tools/vgpu/driver,device,errors init options proc_address state unsupported)
$(call add_unit,tools/vgpu/driver,work,context event graph launch memory stream tensor_map)
$(call add_unit,tools/vgpu/exec,cluster,cluster mbarrier memory memory_lanes transfers)
$(call add_unit,tools/vgpu/exec,grid,explore grid policy profile report warp)
$(call add_unit,tools/vgpu/isa,names,forms globals pattern target types)
$(call add_unit,tools/vgpu/isa,program,calls decode frames operands scopes)
$(call add_unit,tools/vgpu/ops,alu,alu_bits alu_carry alu_half alu_integer)
$(call add_unit,tools/vgpu/ops,async,async_groups async_operand async_reduce bulk_copy clc cp_async)
$(call add_unit,tools/vgpu/ops,control,control control_print convert_mov convert_packed external heap setmaxnreg)
$(call add_unit,tools/vgpu/ops,memory,memory memory_address memory_async memory_ld_st stack)
$(call add_unit,tools/vgpu/ops,sync,barrier mbarrier memory_atom)
$(call add_unit,tools/vgpu/ops,tcgen05,tcgen05 tcgen05_alloc tcgen05_copy tcgen05_ldst tcgen05_shift)
$(call add_unit,tools/vgpu/ops,tcgen05_mma,tcgen05_mma tcgen05_mma_effect)
$(call add_unit,tools/vgpu/ops,tma,tensormap tma tma_load tma_store tma_traffic)
$(call add_unit,tools/vgpu/ops,warp,video warp_matrix warp_mma warp_mma_k4 warp_shuffle)
$(call add_unit,tools/vgpu/ops,wgmma,warp_wmma wgmma wgmma_effect)
$(call add_unit,tools/vgpu/ptx,all,lexer link operand parser statement)
$(call add_unit,tools/vgpu/tensor,maps,instr_desc mma_fp4 tensor_map)
$(call add_unit,tools/vgpu/tensor,operands,mma_operand mma_plain)
$(call add_unit,tools/vgpu/trace,lines,coverage timeline write)
# The objects of sources.
object = $(patsubst %.cpp,$(BUILD)/obj/%.o,$(sort $(foreach file,$(1),$(or $(unit_of_$(file)),$(file)))))

# ---- kernels: preprocess, one statement a line, embed ------------------------------------------

# The flags of each configuration lie in a file of their own, which changes only with them: one
# changed line of a table makes one kernel anew.
define flags_rule
$(BUILD)/gen/flags/$(1).stamp: kernels/$(1)/configs.def kernels/configs.awk
	@mkdir -p $$(@D)
	$(Q)awk -v flags=1 -f kernels/configs.awk kernels/$(1)/configs.def | while read -r name flags; do \
	  echo "$$$$flags" | cmp -s - $$(@D)/$$$$name || echo "$$$$flags" > $$(@D)/$$$$name; done && touch $$@
endef
$(foreach op,$(OPERATIONS),$(eval $(call flags_rule,$(op))))

# $(1) kernel, $(2) operation, $(3) source: the operation's own, else the engine's.
define ptx_rule
$(BUILD)/gen/flags/$(1): $(BUILD)/gen/flags/$(2).stamp
	@:
$(BUILD)/ptx/$(1).ptx: $(firstword $(wildcard kernels/$(2)/$(3).ptx kernels/gemm/$(3).ptx)) \
                       $(BUILD)/gen/flags/$(1) ptx/expand.awk \
                       $(wildcard ptx/*.inc kernels/*/*_form.inc \
                         $(foreach room,gemm $(if $(filter %_norm,$(3)),norm) $(2), \
                           kernels/$(room)/*.inc kernels/$(room)/*_params.def))
	$(Q)echo "  PTX  $(1)"; [ -d $$(@D) ] || mkdir -p $$(@D); \
	  cpp -C -undef -nostdinc -I ptx -I kernels/$(2) -I kernels/gemm -I kernels/norm @$(BUILD)/gen/flags/$(1) $$< $$@.i \
	  && awk -f ptx/expand.awk $$@.i > $$@.tmp && mv $$@.tmp $$@ && rm $$@.i
endef

# $(1) kernel, $(2) target. Machine code is an extra: a ptxas that does not know the target leaves the
# file empty and the driver compiles the PTX.
define cubin_rule
CUBIN_FILES += $(BUILD)/cubin/$(1).$(2).cubin
$(BUILD)/cubin/$(1).$(2).cubin: $(BUILD)/ptx/$(1).ptx
	$(Q)echo "  PTXAS $(1) $(2)"; [ -d $$(@D) ] || mkdir -p $$(@D); \
	  tools/assemble.sh $(PTXAS) $(2) $$< $$@
endef

machine_targets = $(or $(filter %f,$(1)),$(filter %a,$(1)))
# One machine code for a family (targets that end in "f"), else one for each architecture ("a").
define kernel_rules
$(call ptx_rule,$(1),$(2),$(3))
$(if $(filter 1,$(CUBINS)),$(foreach target,$(call machine_targets,$(subst $(comma), ,$(4))), \
  $(eval $(call cubin_rule,$(1),$(target)))))
endef
$(foreach op,$(OPERATIONS),$(foreach kernel,$(shell awk -v list=1 -f kernels/configs.awk \
  kernels/$(op)/configs.def | awk '{print $$1 ":" $$2 ":" $$3}'),$(eval $(call kernel_rules,$(word \
  1,$(subst :, ,$(kernel))),$(op),$(word 2,$(subst :, ,$(kernel))),$(word 3,$(subst :, ,$(kernel)))))))

# The library is made anew when CUBINS changes.
$(BUILD)/gen/cubins.$(CUBINS):
	@mkdir -p $(@D)
	@rm -f $(@D)/cubins.* && touch $@

EMBED_SOURCES := $(wildcard runtime/embed/*.cpp) runtime/src/packed_text.cpp runtime/src/ptx_header.cpp
$(BUILD)/embed: $(call object,$(EMBED_SOURCES))
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/gen/kernels.S: $(PTX) $(CUBIN_FILES) $(BUILD)/embed $(BUILD)/gen/cubins.$(CUBINS) \
                       $(OPERATIONS:%=kernels/%/configs.def) # a kernel less is no newer file
	@mkdir -p $(@D)
	$(Q)$(BUILD)/embed $(BUILD)/gen/kernels.bin $(PTX) $(CUBIN_FILES) > $@.tmp && mv $@.tmp $@

$(BUILD)/obj/kernels.o: $(BUILD)/gen/kernels.S
	@mkdir -p $(@D)
	$(Q)$(CXX) -c $< -o $@

# ---- library, virtual GPU, programs ---------------------------------------------------------------

flags_of = $(or $(if $(filter $(ONCE),$(1)),$(ONCE_FLAGS)),$(if $(filter tools/vgpu/%,$(1)),$(VGPU_FLAGS)), \
  $(if $(filter $(FEW),$(1)),$(FEW_FLAGS)),$(if $(filter $(TABLES),$(1)),$(TABLES_FLAGS)))
compile = $(CXX) $(CPPFLAGS) $(CXXFLAGS) $(call flags_of,$(1)) $(patsubst %,-include %,$(call precompiled,$(1)))
define compile_one
	@mkdir -p $(@D)
	@echo "  CXX  $<"
	$(Q)$(call compile,$<) -c $< -o $@
endef
$(BUILD)/obj/tools/vgpu/%.o: tools/vgpu/%.cpp $(patsubst %,%.gch,$(call precompiled,tools/vgpu/))
	$(compile_one)
$(BUILD)/obj/%.o: %.cpp $(patsubst %,%.gch,$(call precompiled,))
	$(compile_one)
$(UNIT_OBJECTS):
	@mkdir -p $(@D)
	@echo "  CXX  $(FILES)"
	$(Q)printf '#include "%s"\n' $(FILES) > $(@:.o=.cpp)
	$(Q)$(call compile,$<) -c $(@:.o=.cpp) -o $@

lib: $(BUILD)/libwarpline.a
vgpu: $(BUILD)/libvgpu.so

$(BUILD)/libwarpline.a: $(call object,$(LIB_SOURCES)) $(BUILD)/obj/kernels.o
	@echo "  AR   $@"
	$(Q)rm -f $@ && $(AR) rcsD $@ $^

# For programs that load the library (Python's ctypes, other FFIs). The SONAME carries no version: the
# ABI is checked by struct_size and wl_version().
shared: $(BUILD)/libwarpline.so
$(BUILD)/libwarpline.so: $(call object,$(LIB_SOURCES)) $(BUILD)/obj/kernels.o runtime/exports.map
	@echo "  LD   $@"
	$(Q)$(CXX) -shared $(if $(SANITIZE),,-Wl,-z,defs) -Wl,-soname,libwarpline.so \
	  -Wl,--version-script=runtime/exports.map $(LDFLAGS) $(filter %.o,$^) -o $@ $(LDLIBS)

# Nothing but the two APIs is exported, so that no copy and no other library takes part in it.
link_vgpu = $(CXX) -shared $(if $(SANITIZE),,-Wl,-z,defs) -Wl,--version-script=tools/vgpu/driver/exports.map \
  $(1) $(LDFLAGS) $(filter %.o,$^) -o $@ $(LDLIBS)
$(BUILD)/libvgpu.so: $(call object,$(VGPU_SOURCES)) tools/vgpu/driver/exports.map
	@echo "  LD   $@"
	$(Q)$(call link_vgpu)

# Under the name of NVIDIA's: LD_LIBRARY_PATH=build/vgpu-driver ./a_program_of_the_driver_api
$(BUILD)/vgpu-driver/libcuda.so.1: $(call object,$(VGPU_SOURCES)) tools/vgpu/driver/exports.map
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(call link_vgpu,-Wl$(comma)-soname$(comma)libcuda.so.1)
	$(Q)ln -sf libcuda.so.1 $(@D)/libcuda.so
# The CUDA runtime's names over it, for programs of nvcc -cudart shared; CUDA 12's have a name and symbols of
# that version.
$(BUILD)/vgpu-driver/libcudart.so.%: $(call object,$(wildcard tools/vgpu/cudart/*.cpp)) tools/vgpu/cudart/exports.map \
                                     $(BUILD)/vgpu-driver/libcuda.so.1
	@echo "  LD   $@"
	$(Q)sed 's/@MAJOR@/$*/' tools/vgpu/cudart/exports.map > $(BUILD)/gen/cudart.$*.map
	$(Q)$(CXX) -shared $(if $(SANITIZE),,-Wl$(comma)-z$(comma)defs) -Wl,-soname,$(@F) '-Wl,-rpath,$$ORIGIN' \
	  -Wl,--version-script=$(BUILD)/gen/cudart.$*.map $(LDFLAGS) $(filter %.o,$^) $(BUILD)/vgpu-driver/libcuda.so.1 -o $@ $(LDLIBS)
$(BUILD)/vgpu-driver/libcudart.so: $(BUILD)/vgpu-driver/libcudart.so.13
	$(Q)ln -sf libcudart.so.13 $@
vgpu-driver: $(addprefix $(BUILD)/vgpu-driver/libcudart.so,.13 .12) $(BUILD)/vgpu-driver/libcudart.so

$(BUILD)/warpline: $(call object,$(CLI_SOURCES) $(REFERENCE_SOURCES)) $(BUILD)/libwarpline.a
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/vgpu-forms: $(call object,$(wildcard tools/vgpu/forms/*.cpp) $(VGPU_CORE))
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/vgpu: $(call object,$(wildcard tools/vgpu/run/*.cpp) $(VGPU_CORE))
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

# How fast the virtual GPU is on this machine: instructions, then whole GEMMs of a Blackwell and a Hopper configuration.
vgpu-speed: $(BUILD)/vgpu $(BUILD)/warpline $(BUILD)/libvgpu.so
	@tools/vgpu/run/speed.sh $(BUILD)

demo: $(BUILD)/warpline $(BUILD)/libvgpu.so
	$(BUILD)/warpline dual-gemm -m 256 -n 4096 -k 7168 --device virtual:b200

# ---- install -----------------------------------------------------------------------------------------

# A tree that may be moved: nothing in it knows PREFIX. DESTDIR stages it for packages.
PREFIX ?= /usr/local
INSTALL_TREE := $(DESTDIR)$(PREFIX)
VERSION := $(shell awk '/define WL_VERSION_(MAJOR|MINOR|PATCH)/ { v = v s $$3; s = "." } END { print v }' \
  runtime/include/warpline/warpline.h)
HEADERS := $(notdir $(wildcard runtime/include/warpline/*))
INSTALLED := $(HEADERS:%=include/warpline/%) lib/libwarpline.a lib/libwarpline.so lib/libvgpu.so \
  bin/warpline lib/pkgconfig/warpline.pc lib/cmake/warpline/warpline-config.cmake \
  lib/cmake/warpline/warpline-config-version.cmake
fill_in = sed -e 's/@VERSION@/$(VERSION)/' -e 's/@MAJOR@/$(word 1,$(subst ., ,$(VERSION)))/' \
  -e 's/@MINOR@/$(word 2,$(subst ., ,$(VERSION)))/'

install: $(BUILD)/libwarpline.a $(BUILD)/libwarpline.so $(BUILD)/libvgpu.so $(BUILD)/warpline
	@mkdir -p $(addprefix $(INSTALL_TREE)/,include/warpline bin lib/pkgconfig lib/cmake/warpline)
	install -m 644 $(HEADERS:%=runtime/include/warpline/%) $(INSTALL_TREE)/include/warpline
	install -m 644 $(BUILD)/libwarpline.a $(INSTALL_TREE)/lib
	install -m 755 $(BUILD)/libwarpline.so $(BUILD)/libvgpu.so $(INSTALL_TREE)/lib
	install -m 755 $(BUILD)/warpline $(INSTALL_TREE)/bin
	install -m 644 runtime/package/warpline-config.cmake $(INSTALL_TREE)/lib/cmake/warpline
	$(Q)$(fill_in) runtime/package/warpline.pc.in > $(INSTALL_TREE)/lib/pkgconfig/warpline.pc
	$(Q)$(fill_in) runtime/package/warpline-config-version.cmake.in \
	  > $(INSTALL_TREE)/lib/cmake/warpline/warpline-config-version.cmake
uninstall:
	rm -f $(addprefix $(INSTALL_TREE)/,$(INSTALLED))
	@rmdir $(INSTALL_TREE)/include/warpline $(INSTALL_TREE)/lib/cmake/warpline 2>/dev/null || true

# ---- tests ------------------------------------------------------------------------------------------

CATCH_HEADER := $(firstword $(wildcard /usr/include/catch2/catch.hpp /usr/include/catch2/catch_all.hpp \
  /usr/local/include/catch2/catch.hpp /usr/local/include/catch2/catch_all.hpp))
CATCH_LIBS := $(shell pkg-config --libs catch2 2>/dev/null)

# Installs what only the tests need, with the system's package manager, and says so.
deps:
	@sh tests/install_catch2.sh

define suite_rule
$(BUILD)/tests/$(1): $$(call object,$$(wildcard tests/$(1)/*.cpp) $$(SUPPORT_SOURCES) \
                     $$(REFERENCE_SOURCES) $(2)) $(BUILD)/libwarpline.a
	@mkdir -p $$(@D)
	@echo "  LD   $$@"
	$(Q)$$(CXX) $$(LDFLAGS) $$^ -o $$@ $$(CATCH_LIBS) $$(LDLIBS)
endef
PROBLEMS_PARTS := $(filter-out tests/problems/main.cpp,$(wildcard tests/problems/*.cpp))
COVERAGE_PARTS := tests/virtual/coverage/ways.cpp tests/virtual/coverage/toward.cpp
CLI_PARTS := $(filter-out tools/cli/main.cpp,$(CLI_SOURCES))
$(eval $(call suite_rule,host,$(CLI_PARTS) $(VGPU_CORE) runtime/embed/pack.cpp $(PROBLEMS_PARTS) $(COVERAGE_PARTS) \
  $(addprefix tests/virtual/mutation/,mutants.cpp places.cpp shares.cpp summary.cpp table.cpp)))
FUZZ_PARTS := $(filter-out tests/fuzz/main.cpp,$(wildcard tests/fuzz/*.cpp))
$(eval $(call suite_rule,virtual,$(CLI_PARTS) $(VGPU_CORE) $(FUZZ_PARTS) $(PROBLEMS_PARTS) \
  tests/virtual/mutation/rewrite.cpp))
$(eval $(call suite_rule,hardware,$(VGPU_CORE)))

$(BUILD)/tests/mutation: $(call object,tools/cli/options.cpp $(wildcard tests/virtual/mutation/*.cpp) \
                          $(addprefix tests/support/,dual_gemm_run.cpp dual_gemm_nvfp4_run.cpp linear_run.cpp quantize_run.cpp \
                            ledger_names.cpp virtual_gpu.cpp) \
                          $(PROBLEMS_PARTS) $(REFERENCE_SOURCES)) $(BUILD)/libwarpline.a
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/problems: $(call object,tools/cli/options.cpp tests/problems/main.cpp $(PROBLEMS_PARTS) tests/support/virtual_gpu.cpp \
                          $(COVERAGE_PARTS) $(VGPU_CORE) $(REFERENCE_SOURCES)) \
                         $(BUILD)/libwarpline.a
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/kernel-coverage: $(call object,tests/virtual/coverage/main.cpp $(COVERAGE_PARTS) $(VGPU_CORE)) \
                                 $(BUILD)/libwarpline.a
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/planted: $(call object,tools/cli/options.cpp tests/virtual/planted/main.cpp \
                         $(addprefix tests/virtual/mutation/,mutants.cpp places.cpp) \
                         tests/support/vgpu_run.cpp tests/support/child.cpp $(REFERENCE_SOURCES) $(VGPU_CORE)) \
                         $(BUILD)/libwarpline.a
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/semantic: $(call object,tools/cli/options.cpp $(wildcard tests/virtual/semantic/*.cpp) $(PROBLEMS_PARTS) \
                          tests/support/virtual_gpu.cpp tests/support/child.cpp \
                          $(REFERENCE_SOURCES)) $(BUILD)/libwarpline.a
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/sweep: $(call object,tools/cli/options.cpp tests/virtual/sweep/main.cpp \
                       $(addprefix tests/virtual/mutation/,table.cpp mutants.cpp places.cpp) \
                       tests/support/dual_gemm_run.cpp tests/support/dual_gemm_nvfp4_run.cpp \
                       tests/support/virtual_gpu.cpp $(REFERENCE_SOURCES)) $(BUILD)/libwarpline.a
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)

$(BUILD)/tests/libfakecuda.so: $(call object,tests/support/fake_driver.cpp)
	@mkdir -p $(@D)
	@echo "  LD   $@"
	$(Q)$(CXX) -shared $(LDFLAGS) $^ -o $@

# Catch2 may have to be installed before anything that includes it is compiled.
$(call object,$(foreach s,$(SUITES),$(wildcard tests/$(s)/*.cpp)) $(SUPPORT_SOURCES)): | deps

# With the programs and tools that tests run.
suites: $(SUITES:%=$(BUILD)/tests/%) $(BUILD)/tests/libfakecuda.so $(BUILD)/tests/mutation $(BUILD)/tests/problems \
        $(BUILD)/tests/semantic $(BUILD)/tests/kernel-coverage $(BUILD)/tests/planted \
        $(BUILD)/tests/sweep $(BUILD)/bench $(BUILD)/host-cost $(BUILD)/driver-cost \
        $(BUILD)/libwarpline.so all

# The drawn problems keep cores busy that the rest, one test after the other, leaves idle.
suite_parts = $(foreach s,$(SUITES),$(if $(filter virtual,$s),'-$1/$s:[problems]' '$1/$s:~[problems]~[.]',$1/$s))
test: suites
	@tests/run_suites.sh $(call suite_parts,$(BUILD)/tests)
test-host test-virtual: test-%: suites
	@tests/run_suites.sh $(BUILD)/tests/$*
# What a change to one operation wants first.
OPERATIONS := $(patsubst kernels/%/configs.def,%,$(wildcard kernels/*/configs.def))
try: $(if $(filter try,$(MAKECMDGOALS)),$(if $(filter $(OP),$(OPERATIONS)),, \
       $(error OP = "$(OP)" must be a folder of kernels/ with a table of configurations: $(OPERATIONS)))) \
     $(BUILD)/tests/host $(BUILD)/tests/libfakecuda.so $(BUILD)/tests/problems $(BUILD)/libvgpu.so $(BUILD)/warpline
	$(BUILD)/tests/host "[$(OP)]"
	$(BUILD)/tests/problems --operation $(OP) $(TRY_FLAGS)
mutation: $(BUILD)/tests/mutation $(BUILD)/tests/semantic $(BUILD)/libvgpu.so
	$(BUILD)/tests/mutation --out $(BUILD)/mutation/synchronising.md --summary tests/virtual/mutation.md \
	  $(MUTATION_FLAGS)
	$(BUILD)/tests/semantic --results $(BUILD)/mutation/semantic.txt --out tests/virtual/semantic.md \
	  $(SEMANTIC_FLAGS)
sweep: $(BUILD)/tests/sweep $(BUILD)/libvgpu.so
	$(BUILD)/tests/sweep --out tests/virtual/sweep.md $(SWEEP_FLAGS)
false-alarms: $(BUILD)/tests/mutation $(BUILD)/libvgpu.so
	$(BUILD)/tests/mutation --baseline 32 --check all,advice,ledger --out tests/virtual/false_alarms.md \
	  $(FALSE_ALARMS_FLAGS)
planted: $(BUILD)/tests/planted
	$(BUILD)/tests/planted --out tests/virtual/planted.md $(PLANTED_FLAGS)
# What of the kernels' PTX problems run: those of `make test`, those that once took something new,
# and by need what takes ways that are left. The last step goes on where it was cut off.
KERNEL_COVERAGE := $(BUILD)/kernel-coverage
COVERAGE_TEXTS := tests/virtual/coverage
kernel-coverage: $(BUILD)/tests/problems $(BUILD)/tests/kernel-coverage $(BUILD)/libvgpu.so
	@mkdir -p $(addprefix $(KERNEL_COVERAGE)/,test chosen drawn)
	$(BUILD)/tests/problems --coverage $(KERNEL_COVERAGE)/test $(KERNEL_COVERAGE_FLAGS)
	$(BUILD)/tests/problems --chosen $(COVERAGE_TEXTS)/chosen.txt \
	  --coverage $(KERNEL_COVERAGE)/chosen $(KERNEL_COVERAGE_FLAGS)
	$(BUILD)/tests/problems --toward $(COVERAGE_TEXTS)/explained.txt,$(COVERAGE_TEXTS)/steering.txt \
	  --seen $(KERNEL_COVERAGE)/test,$(KERNEL_COVERAGE)/chosen --seed 2 --problems 16 \
	  --coverage $(KERNEL_COVERAGE)/drawn --chosen $(COVERAGE_TEXTS)/chosen.txt $(KERNEL_COVERAGE_FLAGS)
	$(BUILD)/tests/kernel-coverage --explained $(COVERAGE_TEXTS)/explained.txt \
	  --open $(COVERAGE_TEXTS)/open.txt --out tests/virtual/coverage.md \
	  --detail $(KERNEL_COVERAGE)/detail.txt $(addprefix $(KERNEL_COVERAGE)/,test chosen drawn)
hardware-test: suites
	@tests/run_suites.sh $(BUILD)/tests/hardware

# Times the operations on the GPU of this machine: cold L2, events, medians; and the host's side.
$(BUILD)/bench $(BUILD)/host-cost $(BUILD)/driver-cost: $(BUILD)/%: $(call object,tools/bench/problem.cpp tools/bench/layer.cpp tools/bench/timing.cpp tools/cli/options.cpp) \
                                                                  $(BUILD)/libwarpline.a
	@echo "  LD   $@"
	$(Q)$(CXX) $(LDFLAGS) $^ -o $@ $(LDLIBS)
$(BUILD)/bench: $(call object,tools/bench/bench.cpp)
$(BUILD)/host-cost: $(call object,tools/bench/host_cost.cpp)
$(BUILD)/driver-cost: $(call object,tools/bench/driver_cost.cpp)
# WARPLINE_DRIVER=virtual... rehearses them.
define bench_steps
$(BUILD)/bench $(BENCH_FLAGS)
$(BUILD)/bench --gemm $(BENCH_FLAGS)
$(BUILD)/bench --quantize $(BENCH_FLAGS)
$(BUILD)/host-cost $(HOST_COST_FLAGS)
$(BUILD)/driver-cost $(DRIVER_COST_FLAGS)
endef
can_bench = $(filter virtual%,$(WARPLINE_DRIVER))$(shell tools/has_gpu.sh $(BUILD)/warpline && echo yes)
bench: $(BUILD)/bench $(BUILD)/host-cost $(BUILD)/driver-cost $(BUILD)/warpline
	$(if $(can_bench),$(bench_steps),@echo "bench: skipped, no GPU that warpline has kernels for")

# ---- fuzzing ----------------------------------------------------------------------------------------

FUZZ_CXX ?= clang++
FUZZ_SECONDS ?= 60
FUZZ_TARGETS := ptx kernel driver
FUZZ_FLAGS := $(CLANG_WARN) -std=c++20 -O1 -g -fno-omit-frame-pointer -ffp-contract=off -fsanitize=address,undefined \
  -fno-sanitize=function -fno-sanitize-recover=all
$(BUILD)/fuzz/obj/%.o: %.cpp
	@mkdir -p $(@D)
	@echo "  FUZZ $<"
	$(Q)$(FUZZ_CXX) $(CPPFLAGS) $(FUZZ_FLAGS) -fsanitize=fuzzer-no-link -MMD -MP -c $< -o $@
$(BUILD)/fuzz/fuzz: $(patsubst %.cpp,$(BUILD)/fuzz/obj/%.o,$(VGPU_SOURCES) $(wildcard tests/fuzz/*.cpp))
	@echo "  LD   $@"
	$(Q)$(FUZZ_CXX) $(FUZZ_FLAGS) -fsanitize=fuzzer -rdynamic $^ -o $@ $(LDLIBS)
fuzz: $(BUILD)/fuzz/fuzz
	@tests/fuzz/run.sh $(BUILD)/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

# ---- gates ------------------------------------------------------------------------------------------

check-ptx: $(PTX)
	@tools/check_ptx.sh $(PTX)

# SASS_FLAGS=--allow-missing passes where ptxas or nvdisasm is missing.
sass-check: $(PTX)
	@tools/sass/sass-summary --check $(SASS_FLAGS)

# For the first run on somebody's GPU: REPORT_FLAGS="--device gpu --limit 600".
report: suites
	@tools/report.sh --build $(BUILD) $(REPORT_FLAGS)

# compute-sanitizer on the GPU of this machine; says so where there is none.
sanitize: $(BUILD)/warpline $(BUILD)/tests/problems
	@tools/sanitize.sh --build $(BUILD) $(SANITIZE_FLAGS)

# Which lines the tests run, by room.
coverage:
	@$(MAKE) --no-print-directory COVERAGE=1 suites
	@find build/coverage -name '*.gcda' -delete
	@tests/run_suites.sh $(call suite_parts,build/coverage/tests)
	@tests/coverage.sh build/coverage

# The picture of tools/README.md: order and overlap of the flagship's roles, of a short K.
timeline: $(BUILD)/warpline $(BUILD)/libvgpu.so
	@rm -rf $(BUILD)/trace && mkdir -p $(BUILD)/trace tools/trace
	$(BUILD)/warpline dual-gemm -m 256 -n 4096 -k 2048 --device virtual:b200 --trace $(BUILD)/trace/b200
	@cp $(BUILD)/trace/b200.*.svg tools/trace/b200.svg

CXX_FILES := $(shell git ls-files '*.cpp' '*.hpp' '*.h' 2>/dev/null)
SH_FILES := $(shell git ls-files '*.sh' .ci/run tools/sass/fetch-disassembler 2>/dev/null)
lint:
	@tools/lint.sh
format:
	clang-format -i $(CXX_FILES)

clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD)/obj $(BUILD)/std $(BUILD)/fuzz -name '*.d' 2>/dev/null)
