# Runs the command on stdin in a shell that begins with what the last one left in .session/shell, as
# `bash -c THIS /bin/bash ("go on" | restart)` in the work directory. All output goes to stderr, and the exit
# status to stdout. A command that ends the shell leaves nothing to the next one, as in a shell that lives on.
IFS= builtin read -r -d '' __cofferdam_command
exec 194>&1 >&2
__cofferdam_state=$PWD/.session/shell
[[ $1 == restart ]] && : >|"$__cofferdam_state"
builtin set --
[[ -r $__cofferdam_state ]] && { builtin source "$__cofferdam_state"; } 2>/dev/null
__cofferdam_keep() {
  builtin declare -p | while IFS= builtin read -r __cofferdam_line; do
    [[ $__cofferdam_line =~ ^declare\ -[a-zA-Z]*r ]] && continue
    [[ $__cofferdam_line =~ ^declare\ -[-a-zA-Z]+\ (__cofferdam|BASH|FUNCNAME|DIRSTACK|PIPESTATUS|GROUPS|_=) ]] && continue
    builtin printf '%s\n' "$__cofferdam_line"
  done
  builtin declare -f
  builtin alias -p
  builtin shopt -p
  builtin set +o
  builtin printf 'cd -- %q\n' "$PWD"
}
# If the command ends the shell, this script never reaches its end. This trap then empties the state.
builtin trap ': >|"$__cofferdam_state"' EXIT
builtin eval "$__cofferdam_command" </dev/null 194>&-
__cofferdam_status=$?
{
  __cofferdam_keep >|"$__cofferdam_state"
  builtin trap - EXIT
} 2>/dev/null
builtin printf 'cofferdam-exit %d %s\n' "$__cofferdam_status" /bin/bash >&194
