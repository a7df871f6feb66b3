# The shell that a session keeps. It reads what to run from descriptor 198, sources it, and reports its exit
# code on 199. `exit`, or an error under `set -e`, ends the shell, and the next run gets a fresh one. A
# message is the number of its fields and then the fields, each ending with NUL. Descriptors 195 and 196 are
# copies of the shell's stdout and stderr. Each run's outputs are made from them.
exec 195>&1 196>&2
while IFS= builtin read -r -d '' -u 198 __cofferdam_n; do
  {
    __cofferdam=()
    while ((${#__cofferdam[@]} < __cofferdam_n)); do
      IFS= builtin read -r -d '' -u 198 __cofferdam_field || builtin exit 0
      __cofferdam+=("$__cofferdam_field")
    done
    # The fields: stdin, entry, number of arguments, arguments, variables.
    __cofferdam_input=${__cofferdam[0]:-/dev/null}
    for __cofferdam_field in "${__cofferdam[@]:$((3 + __cofferdam[2]))}"; do builtin export "$__cofferdam_field"; done
    __cofferdam_entry=${__cofferdam[1]}
    builtin set -- "${__cofferdam[@]:3:${__cofferdam[2]}}"
    builtin unset __cofferdam __cofferdam_field __cofferdam_n
  } 2>/dev/null
  builtin source "$__cofferdam_entry" "$@" <"$__cofferdam_input" >&195 2>&196 195>&- 196>&- 198<&- 199>&-
  { builtin printf 'D%d\n' "$?" >&199; } 2>/dev/null
done
