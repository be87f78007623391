# Completion for bash; for zsh after `autoload -U bashcompinit && bashcompinit`.
_nightshift()
{
    local words=() part= keep= line i
    # Readline parts words at '=': they are put together again.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        if [[ $i -gt 1 && (${COMP_WORDS[i]} == = || $part == =) ]]; then
            words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        part=${COMP_WORDS[i]}
    done
    # It replaces the part alone, and what is behind '=' is one, also when it is empty.
    line=${words[${#words[@]} - 1]}
    [[ $part == = ]] && keep=$line || keep=${line%"$part"}
    COMPREPLY=()
    while IFS= read -r line; do
        COMPREPLY+=("${line#"$keep"}")
    done < <("$1" complete "${words[@]}" 2>/dev/null)
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}
complete -o default -F _nightshift nightshift
