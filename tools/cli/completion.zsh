#compdef nightshift
# Completion for zsh: as _nightshift in a folder of $fpath.
local -a found open
found=("${(@f)$("${(Q)words[1]}" complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)}")
found=("${(@)found:#}")
open=("${(@M)found:#*=}") # a value follows: no blank behind them
if (( $#found )); then
    (( ! $#open )) || compadd -S '' -- "${(@)open}"
    compadd -- "${(@)found:#*=}"
else
    [[ $PREFIX != -*=* ]] || compset -P '*='
    _files
fi
