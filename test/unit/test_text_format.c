/*-------------------------------------------------------------------------
 *
 * test_text_format.c
 *	  IDs as texts: known texts, the conversion to text and back, the order,
 *	  and refused texts with the position of the error.
 *
 *-------------------------------------------------------------------------
 */
#include "layout/text_format.h"
#include "harness.h"

#define NVALUES		1000000

/*
 * Return an ID of any magnitude, often at an edge or beside a power of the
 * base.
 */
static int64_t
rnd_id(const SfTextFormat *digits)
{
	int64_t		n = rnd_int64();

	if (rnd_below(4) == 0)
	{
		n = 1;
		for (int i = rnd_below(13); i > 0 && n <= INT64_MAX / digits->base; i--)
			n *= digits->base;
		n += (int64_t) rnd_below(3) - 1;
	}
	return n < 0 ? ~n : n;
}

/* Parse a text from memory that ends with it, without a terminating zero. */
static bool
parse(const SfTextFormat *digits, const char *text, size_t len, int64_t *id,
	  SfTextFault *fault)
{
	char	   *copy = malloc(len > 0 ? len : 1);
	bool		good;

	memcpy(copy, text, len);
	snprintf(context, sizeof(context), "%s \"%.*s\"", digits->name,
			 (int) len, text);
	good = sf_text_format_parse(digits, id, copy, len, fault);
	free(copy);
	return good;
}

static const SfTextFormat *
format(const char *name)
{
	return sf_text_format_find(name, strlen(name));
}

static void
check_text(const char *name, int64_t id, const char *text)
{
	SfTextFault fault;
	char		buf[SF_DIGITS_SIZE];
	int64_t		back = -1;

	sf_text_format_print(format(name), id, buf);
	CHECK_STR(buf, text);
	CHECK(parse(format(name), text, strlen(text), &back, &fault));
	CHECK_EQ(back, id);
}

static void
check_refused_bytes(const char *name, const char *text, size_t len,
					int position, bool out_of_range, const char *why)
{
	SfTextFault fault = {0};
	char		named[40];
	int64_t		id = -1;

	CHECK(!parse(format(name), text, len, &id, &fault));
	CHECK_EQ(id, -1);
	CHECK_EQ(fault.position, position);
	CHECK_EQ(fault.out_of_range, out_of_range);
	CHECK_CONTAINS(fault.reason, why);
	sprintf(named, "haracter %d ", position);
	CHECK_CONTAINS(fault.reason, named);
}

static void
check_refused(const char *name, const char *text, int position,
			  const char *why)
{
	check_refused_bytes(name, text, strlen(text), position, false, why);
}

static void
check_too_large(const char *name, const char *text, int position)
{
	check_refused_bytes(name, text, strlen(text), position, true,
						"exceeds 9223372036854775807.");
}

static void
test_formats(void)
{
	for (int i = 0; i < sf_ntext_formats; i++)
	{
		const SfTextFormat *digits = &sf_text_formats[i];

		CHECK(sf_text_format_find(digits->name, 6) == digits);
		CHECK_EQ(strlen(digits->digits), digits->base);
		for (int j = 1; j < digits->base; j++)
			CHECK(digits->digits[j - 1] < digits->digits[j]);
	}
	CHECK_EQ(sf_ntext_formats, 3);
	CHECK(format("") == NULL);
	CHECK(format("base") == NULL);
	CHECK(format("base3") == NULL);
	CHECK(format("base320") == NULL);
	CHECK(format("BASE32") == NULL);
	CHECK(sf_text_format_find("base32\0", 7) == NULL);
}

/*
 * Texts computed by hand or with other programs: 2^53 - 1, the ID in
 * Discord's documentation, and the largest bigint.
 */
static void
test_known_texts(void)
{
	check_text("base32", 0, "0000000000000");
	check_text("base32", 1, "0000000000001");
	check_text("base32", 31, "000000000000Z");
	check_text("base32", 32, "0000000000010");
	check_text("base32", INT64_C(9007199254740991), "007ZZZZZZZZZZ");
	check_text("base32", INT64_C(175928847299117063), "04W86BB0G4007");
	check_text("base32", INT64_MAX, "7ZZZZZZZZZZZZ");
	check_text("base58", 0, "1");
	check_text("base58", 57, "z");
	check_text("base58", 58, "21");
	check_text("base58", INT64_C(9007199254740991), "2DLNrMSKug");
	check_text("base58", INT64_C(175928847299117063), "QgmVVkniES");
	check_text("base58", INT64_MAX, "NQm6nKp8qFC");
	check_text("base62", 0, "0");
	check_text("base62", 61, "z");
	check_text("base62", 62, "10");
	check_text("base62", INT64_C(9007199254740991), "fFgnDxSe7");
	check_text("base62", INT64_C(175928847299117063), "Czks0tP37X");
	check_text("base62", INT64_MAX, "AzL8n0Y58m7");
}

static void
test_there_and_back(void)
{
	for (int i = 0; i < NVALUES; i++)
	{
		const SfTextFormat *digits = &sf_text_formats[i % sf_ntext_formats];
		int64_t		id = rnd_id(digits);
		int64_t		back = -1;
		char		text[SF_DIGITS_SIZE];
		SfTextFault fault;

		sf_text_format_print(digits, id, text);
		CHECK(strspn(text, digits->digits) == strlen(text));
		CHECK(parse(digits, text, strlen(text), &back, &fault));
		CHECK_EQ(back, id);
		if (digits->width > 0)
			CHECK_EQ(strlen(text), digits->width);
	}
}

/* Texts of one length sort as their numbers do. */
static void
test_order(void)
{
	for (int i = 0; i < NVALUES; i++)
	{
		const SfTextFormat *digits = &sf_text_formats[i % sf_ntext_formats];
		int64_t		a = rnd_id(digits);
		int64_t		b = rnd_below(2) ? rnd_id(digits) : a ^ (a >> 1);
		char		ta[SF_DIGITS_SIZE];
		char		tb[SF_DIGITS_SIZE];
		int			order;

		sf_text_format_print(digits, a, ta);
		sf_text_format_print(digits, b, tb);
		order = (int) strlen(ta) - (int) strlen(tb);
		if (order == 0)
			order = strcmp(ta, tb);
		else
			CHECK(digits->width == 0);
		snprintf(context, sizeof(context), "%s and %s", ta, tb);
		CHECK_EQ((order > 0) - (order < 0), (a > b) - (a < b));
	}
}

static void
test_spellings_of_base32(void)
{
	static const char *const spellings[] = {
		"04W8ZRTE42107", "04w8zrte42107", "O4W8ZRTE42IO7", "o4w8zrte42lo7",
		"04w8zrtE42Lo7", "04w8zrte42i07"
	};
	int64_t		id;
	SfTextFault fault;

	for (int i = 0; i < LENGTH(spellings); i++)
	{
		id = -1;
		CHECK(parse(format("base32"), spellings[i], 13, &id, &fault));
		CHECK_EQ(id, INT64_C(175956798329652231));
	}
	/* in the other formats, upper and lower case are different digits */
	check_text("base62", 10, "A");
	check_text("base62", 36, "a");
	check_refused("base58", "2O", 2, "not a digit of base58.");
	check_refused("base58", "2l", 2, "not a digit of base58.");
}

static void
test_texts_are_refused(void)
{
	static const char *const beyond_ascii[] = {
		"\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80", "\x8f\xa2\xaf", "\xff"
	};

	check_refused("base32", "", 1, "missing: the text is empty.");
	check_refused("base58", "", 1, "missing: the text is empty.");
	check_refused("base62", "", 1, "missing: the text is empty.");
	check_refused("base32", "0", 2, "missing: a text in base32 has 13.");
	check_refused("base32", "04W8ZRTE4210", 13, "missing: a text in base32");
	check_refused("base32", "04W8ZRTE421070", 14, "one too many");
	check_refused("base32", "04W8ZRTE42107\xe6\x97\xa5", 14, "one too many");
	check_refused("base32", "zzzzzzzzzzzzzz", 14, "one too many");
	check_refused("base32", "04W8ZRTE4210U", 13, "not a digit of base32.");
	check_refused("base32", "u4W8ZRTE42107", 1, "not a digit of base32.");
	check_refused("base32", "04W8-ZRTE-42107", 5, "not a digit of base32.");
	check_refused("base32", " 04W8ZRTE42107", 1, "not a digit of base32.");
	check_refused("base32", "04W8ZRTE42107 ", 14, "one too many");
	check_refused("base58", "12", 1, "a leading zero");
	check_refused("base58", "11", 1, "a leading zero");
	check_refused("base62", "00", 1, "a leading zero");
	check_refused("base62", "0-", 1, "a leading zero");
	check_refused("base62", "0D0xqJoJzTj", 1, "a leading zero");
	check_refused("base62", "-1", 1, "not a digit of base62.");
	check_refused("base62", "1 ", 2, "not a digit of base62.");
	check_refused("base62", "zzzzzzzzzzzzzz_", 15, "not a digit of base62.");
	for (int i = 0; i < LENGTH(beyond_ascii); i++)
	{
		char		text[20];

		sprintf(text, "A2%sz", beyond_ascii[i]);
		for (int j = 0; j < sf_ntext_formats; j++)
			check_refused(sf_text_formats[j].name, text, 3, "is not a digit of");
	}
	check_refused_bytes("base32", "04W8ZRTE4\0" "210", 13, 10, false,
						"not a digit of base32.");
	check_refused_bytes("base58", "2\0", 2, 2, false, "not a digit");
	check_refused_bytes("base62", "\0", 1, 1, false, "not a digit");

	/* the neighbours of the digits in ASCII, and every other byte */
	for (int c = 0; c < 256; c++)
	{
		char		ch = (char) c;

		for (int j = 1; j < sf_ntext_formats; j++)
			if (c == 0 || strchr(sf_text_formats[j].digits, c) == NULL)
				check_refused_bytes(sf_text_formats[j].name, &ch, 1, 1, false,
									"not a digit");
	}
}

static void
test_numbers_out_of_range_are_refused(void)
{
	check_too_large("base32", "8000000000000", 1);
	check_too_large("base32", "ZZZZZZZZZZZZZ", 1);
	check_too_large("base32", "zzzzzzzzzzzzz", 1);
	/* 2^65 would wrap around to 0 */
	check_too_large("base32", "G000000000000", 1);
	check_too_large("base58", "NQm6nKp8qFD", 11);
	check_too_large("base58", "NQm6nKp8qG1", 11);
	check_too_large("base58", "zzzzzzzzzzz", 11);
	check_too_large("base58", "211111111111", 12);
	check_too_large("base62", "AzL8n0Y58m8", 11);
	check_too_large("base62", "zzzzzzzzzzz", 11);
	check_too_large("base62", "100000000000", 12);
	check_too_large("base62", "1000000000000000000000000000000000", 12);
}

int
main(void)
{
	start_tests();
	RUN(test_formats);
	RUN(test_known_texts);
	RUN(test_there_and_back);
	RUN(test_order);
	RUN(test_spellings_of_base32);
	RUN(test_texts_are_refused);
	RUN(test_numbers_out_of_range_are_refused);
	return finish_tests("test_text_format");
}
