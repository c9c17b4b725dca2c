#!/usr/bin/env bash
# The root file system of Containerfile without a container engine, and programs in it without privilege.
#
#   containers/rootfs.sh build FOLDER target/release/fabriscope     what the last stage has, of this machine's packages
#   containers/rootfs.sh run FOLDER --on ri2 -- ibv_devinfo         its entry point, as its user, in its folder
#
# A line of the last stage that is not known here is an error, so that the two are the same. Packages are those of the Debian
# or Ubuntu that this runs on; the binary takes the place of the one that the first stage builds.
set -euo pipefail
containerfile=$(dirname "$(realpath "$0")")/Containerfile

fail() {
    echo "rootfs.sh: $1" >&2
    exit 1
}

# The lines of the last stage, without what FROM says.
last_stage() {
    awk '/^FROM /{stage = ""; next} /^[A-Z]/{stage = stage $0 "\n"} END{printf "%s", stage}' "$containerfile"
}

# What a key of the last stage says, once.
said() {
    last_stage | sed -n "s/^$1 //p" | tail -n 1
}

# Packages with all that they depend on, as far as it is installed: the first of several that would do.
with_dependencies() {
    dpkg-query -W -f '${db:Status-Abbrev}\t${Package}\t${Provides}\t${Pre-Depends}, ${Depends}\n' | awk -F'\t' -v wanted="$*" '
        $1 ~ /^ii/ {
            has[$2] = 1; needs[$2] = $4
            count = split($3, list, ", *")
            for (i = 1; i <= count; i++) {
                sub(/[ (].*/, "", list[i])
                if (list[i] != "" && !(list[i] in by)) by[list[i]] = $2
            }
        }
        END {
            last = split(wanted, open, " ")
            for (i = 1; i <= last; i++) {
                if (open[i] in has) continue
                print "rootfs.sh: not installed here: apt-get install " open[i] > "/dev/stderr"
                exit 1
            }
            for (at = 1; at <= last; at++) {
                if (open[at] in seen) continue
                seen[open[at]] = 1; print open[at]
                count = split(needs[open[at]], each, ", *")
                for (i = 1; i <= count; i++) {
                    either = split(each[i], choice, / *\| */)
                    for (j = 1; j <= either; j++) {
                        name = choice[j]; sub(/[ :(].*/, "", name)
                        if (!(name in has)) name = by[name]
                        if (name in has) { open[++last] = name; break }
                    }
                }
            }
        }'
}

# The files of packages, below a folder; manuals are left out.
unpack() {
    local root=$1 list
    shift
    for link in bin sbin lib lib64; do
        if [[ -L /$link ]]; then mkdir -p "$root/usr/$link"; ln -sfn "usr/$link" "$root/$link"; fi
    done
    list=$(dpkg -L "$@" | grep -vE '^/usr/share/(doc|man|info|locale|lintian)/|^/\.$|^package diverts')
    [[ ! -L /bin ]] || list=$(sed -E 's#^/(bin|sbin|lib|lib64)/#/usr/\1/#' <<<"$list")
    while read -r file; do
        # Folders first, so that their rights are those of the machine.
        if [[ -d $file && ! -L $file ]]; then mkdir -p "$root$file"; elif [[ -e $file || -L $file ]]; then echo "$file"; fi
    done < <(sort -u <<<"$list") | tar -C / -cf - --no-recursion -T - 2>/dev/null | tar -C "$root" -xf - --no-same-owner
}

build() {
    local root=$1 binary=$2 line packages essential
    [[ -e $root ]] && fail "$root is there already: remove it"
    [[ -x $binary ]] || fail "$binary is no program: build it by \`make build\`"
    essential=$(dpkg-query -W -f '${Essential} ${Package}\n' | sed -n 's/^yes //p' | tr '\n' ' ')
    mkdir -p "$root"/{dev,proc,sys,tmp,etc,home,usr/bin}
    chmod 1777 "$root/tmp"
    echo 'root:x:0:0::/root:/bin/sh' >"$root/etc/passwd"
    echo 'root:x:0:' >"$root/etc/group"
    last_stage | while read -r line; do
        case $line in
        "RUN apt-get update && apt-get install -y --no-install-recommends "*)
            packages=${line##*--no-install-recommends }
            # shellcheck disable=SC2086
            packages=$(with_dependencies $essential $packages)
            # shellcheck disable=SC2086
            unpack "$root" $packages
            ;;
        "RUN useradd --create-home --uid "*)
            read -r uid user <<<"${line##*--uid }"
            echo "$user:x:$uid:$uid::/home/$user:/bin/sh" >>"$root/etc/passwd"
            echo "$user:x:$uid:" >>"$root/etc/group"
            mkdir -p "$root/home/$user"
            ;;
        "COPY --from=build "*) install -D -m 755 "$binary" "$root${line##* }" ;;
        "USER "* | "WORKDIR "* | "ENV PATH="* | "ENTRYPOINT "*) ;;
        *) fail "a line of the last stage that is not known here: $line" ;;
        esac
    done
}

# Within name spaces of its own the user needs no right of the machine: neither the right to change roots, which is given up again
# before the program begins, nor any other.
run() {
    local root user uid entry
    root=$(realpath "$1")
    shift
    user=$(said USER)
    uid=$(sed -n "s/^$user:x:\([0-9]*\):.*/\1/p" "$root/etc/passwd")
    entry=$(said ENTRYPOINT | tr -d '[]",')
    # shellcheck disable=SC2016,SC2086
    exec unshare --user --map-user="$uid" --map-group="$uid" --keep-caps --mount sh -c '
        root=$1 folder=$2 path=$3
        shift 3
        mount --rbind /proc "$root/proc" && mount --rbind /dev "$root/dev" || exit 125
        exec chroot "$root" setpriv --no-new-privs --ambient-caps=-all --inh-caps=-all --bounding-set=-all \
            env -i -C "$folder" "$path" "HOME=$folder" "$@"
    ' sh "$root" "$(said WORKDIR)" "$(said ENV)" $entry "$@"
}

case ${1-} in
build) [[ $# -eq 3 ]] || fail "build FOLDER PROGRAM"; build "$2" "$3" ;;
run) [[ $# -ge 3 ]] || fail "run FOLDER WORD…"; shift; run "$@" ;;
*) fail "build FOLDER PROGRAM, or run FOLDER WORD…" ;;
esac
