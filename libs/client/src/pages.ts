/** A list of the API as an async iterator, which fetches page after page. */

/** All items of a list, in order: `for await (const item of list)`. Each loop starts anew. */
export interface List<Item, Page> extends AsyncIterable<Item> {
  /** One page, with `next_cursor` for the next call. */
  page(cursor?: string): Promise<Page>
  /** All pages, one by one. A page may have no items and yet be followed by others. */
  pages(): AsyncIterable<Page>
}

/** A list whose pages `fetchPage` gets. `itemsOf` takes the items out of a page. */
export function listOf<Item, Page extends { next_cursor: string | null }>(
  fetchPage: (cursor: string | undefined) => Promise<Page>,
  itemsOf: (page: Page) => readonly Item[],
): List<Item, Page> {
  async function* pages(): AsyncGenerator<Page, void, undefined> {
    let cursor: string | undefined
    do {
      const page = await fetchPage(cursor)
      yield page
      cursor = page.next_cursor ?? undefined
    } while (cursor !== undefined)
  }
  return {
    page: fetchPage,
    pages,
    async *[Symbol.asyncIterator]() {
      for await (const page of pages()) yield* itemsOf(page)
    },
  }
}
