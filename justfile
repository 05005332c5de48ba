# Short names for `cargo xtask`, which is where the work is done: nothing here is needed.

set positional-arguments

# List the recipes.
default:
    @just --list

# Build what the demo needs and run an agent: just run triage "…"
run *arguments:
    cargo xtask run "$@"

# Everything a commit has to pass; or some stages: just test --only clippy,test
test *arguments:
    cargo xtask test "$@"

# Formatting and Clippy.
lint:
    cargo xtask lint

# The checks that keep the core pure.
doors:
    cargo xtask doors

# Build the tool servers for WebAssembly.
guests:
    cargo xtask guests

# Run the benchmarks.
bench *arguments:
    cargo xtask bench "$@"

# Make the packages that users install: just dist --check
dist *arguments:
    cargo xtask dist "$@"

# Format both workspaces.
fmt:
    cargo xtask fmt

# Kill processes of real runs: just crash --instants 500
crash *arguments:
    cargo xtask crash "$@"

# Many runs with faults while memory is watched: just soak --minutes 10
soak *arguments:
    cargo xtask soak "$@"

# Measure every budget in one table.
budget *arguments:
    cargo xtask budget "$@"

# Measure the server: just serving --only read
serving *arguments:
    cargo xtask serving "$@"
