# Completion for fish.
function __nightshift_words
    set -l words (commandline -opc) (commandline -ct)
    $words[1] complete $words[2..-1] 2>/dev/null
end
# Where it knows nothing, names of files will do.
complete -c nightshift -n 'test -n "$(__nightshift_words)"' -f -a '(__nightshift_words)'
