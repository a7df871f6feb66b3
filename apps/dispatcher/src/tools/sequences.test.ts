import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { compareToolsets, withoutLineNumbers, type Call, type Files } from '../../test/compare-toolsets.ts'
import type { ToolAnswer } from './tool.ts'

const FILES: Files = {
  'work/a': 'alpha\nbeta\n',
  'work/d/b.txt': 'one two one\n',
  'work/link': { to: 'd' },
  'work/out': { to: '<base>/outside' },
  'outside/s': 'secret',
  'shared/r': 'alpha',
}

const path = fc.constantFrom(
  'a',
  'd/b.txt',
  'd/e/f',
  'new',
  'link/b.txt',
  'link/n',
  'out/s',
  '../outside/s',
  '<base>/memory/m',
  '<base>/shared/r',
  'd',
  'a/x',
  './a',
  'd/../a',
  '.h/i',
)
const word = fc.constantFrom('one', 'two', 'alpha', 'a', 'ü', '\n', '$&', '')
const text = fc.array(word, { maxLength: 6 }).map((words) => words.join(' '))
const line = fc.integer({ min: -2, max: 5 })

const command = fc.constantFrom(
  'cd d',
  // Never above the base. A file written there would stay, and the SDK's and our toolset would see each
  // other's files.
  'cd <base>',
  'cd <base>/outside',
  'pwd',
  'x=$((x + 1)); echo $x',
  'export E="$x-$E"; env | grep ^E=',
  'exit',
  'exit 3',

  'f() { echo "f $1"; return 2; }',
  'f 1',
  'f 2 | cat',
  'cat <<EOF\n$x\nEOF',
  "cat <<'EOF'\n$x\nEOF",
  'false',
  'set -e',

  'set +e',
  'sleep 1000 >/dev/null 2>&1 &',
  // A plain `wait` would also wait for an older job.
  'kill $! 2>/dev/null && wait $!',
  'jobs | wc -l',
  'echo new >>new; cat new',
  'ls -A | sort',

  'rm -rf d',
  'mkdir -p d/e; echo one >d/e/f',
  'echo err >&2; echo out',
  'nosuch',
  'read v; echo "[$v]"',
  'umask 077',

  'shopt -s nullglob; echo *.none',
  "trap 'echo bye' EXIT",
  'ln -sfn ../outside out2; cat out2/s',
  'type f | head -1',

  '(cd /; x=9); echo $x',
  'printf "a\\033[1mb"',
  'unset x; echo ${x-none}',
  'true # comment',
  'local y=1',
  '[[ -e a ]]',
)

const call: fc.Arbitrary<Call> = fc.oneof(
  { weight: 4, arbitrary: command.map((one): Call => ['bash', { command: one }]) },
  { weight: 1, arbitrary: fc.constant<Call>(['bash', { restart: true }]) },
  { weight: 2, arbitrary: path.map((file_path): Call => ['read', { file_path }]) },
  {
    weight: 1,
    arbitrary: fc
      .tuple(path, line, line)
      .map(([file_path, ...view_range]): Call => ['read', { file_path, view_range }]),
  },
  {
    weight: 2,
    arbitrary: fc.tuple(path, text).map(([file_path, content]): Call => ['write', { file_path, content }]),
  },
  {
    weight: 2,
    arbitrary: fc
      .record({ file_path: path, old_string: word, new_string: text, replace_all: fc.boolean() })
      .map((input): Call => ['edit', input]),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(
        '*',
        '**',
        '**/*',
        'd/*',
        '**/[a-f]*',
        '{a,d/*}',
        'link/*',
        'out/*',
        '.*/*',
        '!(a)',
        '**/*.txt',
      )
      .map((pattern): Call => ['glob', { pattern }]),
  },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom('one', '^a', '(o)n|two', 'e$', '[^a-z ]', 'alpha|\\$', '.', '(')
      .map((pattern): Call => ['grep', { pattern }]),
  },
)

/** Files that were written within one tick of the clock have no order. */
const unordered = ([tool]: Call, { text, isError }: ToolAnswer): ToolAnswer => ({
  text: tool === 'glob' ? text.split('\n').toSorted().join('\n') : text,
  isError,
})

describe('sequences of calls', () => {
  it("have the answers and effects of the SDK's toolset", { timeout: 180_000 }, async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(call, { minLength: 1, maxLength: 12 }), async (calls) => {
        const { sdk, ours } = await compareToolsets(calls, FILES)
        for (const [at, one] of calls.entries()) {
          const [theirs, own] = [sdk.answers[at]!, ours.answers[at]!].map((answer) =>
            unordered(one, withoutLineNumbers(answer)),
          )
          expect(own, `call ${at}: ${JSON.stringify(one)}`).toEqual(theirs)
        }
        expect(ours.tree).toEqual(sdk.tree)
      }),
      { numRuns: 25 },
    )
  })
})
