import { queryValue, withQuery } from '../../address/address.ts'

/** The orders of the API, and what each puts first. */
const SORTS = [
  ['next', 'Next'],
  ['waiting', 'Most waiting'],
  ['share', 'Largest share'],
  ['lag', 'Furthest ahead'],
] as const

type Sort = (typeof SORTS)[number][0]

/** The order that the address names. `next` if it names none, or one that does not exist. */
export function sortOf(): Sort {
  const named = queryValue('sort')
  return SORTS.find(([sort]) => sort === named)?.[0] ?? 'next'
}

/** Links to the same page in each order, so that an order is shared by its address. */
export function SortChoice({ current }: { current: Sort }) {
  return (
    <nav class="segments" aria-label="Order">
      {SORTS.map(([sort, words]) => (
        <a
          key={sort}
          href={withQuery({ sort: sort === 'next' ? null : sort })}
          aria-current={sort === current ? 'true' : undefined}
        >
          {words}
        </a>
      ))}
    </nav>
  )
}
