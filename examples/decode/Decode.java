// Prints the fields of a Snowflake ID, without a database.
import java.time.*;
import java.util.*;
import java.util.stream.*;

public class Decode {
	static final String USAGE = String.join("\n",
			"Print the fields of a Snowflake ID, without a database.",
			"",
			"usage: java Decode.java ID [FIELDS EPOCH_MS [TICK_MS]]",
			"       java Decode.java -      reads lines \"ID EPOCH_MS TICK_MS FIELDS\"",
			"",
			"FIELDS are names and widths in bits, from high to low. EPOCH_MS is the Unix time of",
			"the first tick, and TICK_MS the length of a tick, both in milliseconds. The default is",
			"the extension's own layout: \"timestamp:41 node:10 sequence:12\" 1704067200000 1");

	// Return the fields; Instant.ofEpochMilli(unix_ms) is the time. Example:
	// decode(1541815603606036480L, "timestamp:41 datacenter:5 worker:5 sequence:12", 1288834974657L, 1)
	static Map<String, Long> decode(long id, String fields, long epochMs, long tickMs) {
		Map<String, Long> said = new TreeMap<>();
		int shift = 0;
		for (String field : fields.split(" "))
			shift += Integer.parseInt(field.split(":")[1]);
		for (String field : fields.split(" ")) {
			int bits = Integer.parseInt(field.split(":")[1]);
			long value = id >>> (shift -= bits) & (1L << bits) - 1;
			said.put(field.split(":")[0], value);
			if (field.matches("(datacenter|worker|process):.*"))	// parts of the node
				said.merge("node", value, (node, part) -> node << bits | part);
		}
		said.put("unix_ms", epochMs + said.remove("timestamp") * tickMs);
		return said;
	}

	static String show(Map<String, Long> said, String separator) {
		return said.entrySet().stream()
				.map(e -> e.getKey() + "=" + e.getValue())
				.collect(Collectors.joining(separator));
	}

	static void decodeLines() {
		Scanner in = new Scanner(System.in);

		while (in.hasNextLine()) {
			String[] word = in.nextLine().split(" ", 4);
			System.out.println(show(decode(Long.parseLong(word[0]), word[3],
					Long.parseLong(word[1]), Long.parseLong(word[2])), " "));
		}
	}

	static void decodeOne(String[] word) {
		boolean named = word.length > 1;
		Map<String, Long> said = decode(Long.parseLong(word[0]),
				named ? word[1] : "timestamp:41 node:10 sequence:12",
				named ? Long.parseLong(word[2]) : 1704067200000L,
				word.length > 3 ? Long.parseLong(word[3]) : 1);

		System.out.println(show(said, "\n"));
		System.out.println("time=" + OffsetDateTime
				.ofInstant(Instant.ofEpochMilli(said.get("unix_ms")), ZoneOffset.UTC)
				.format(java.time.format.DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSX")));
	}

	public static void main(String[] args) {
		try {
			if (args.length == 1 && args[0].equals("-"))
				decodeLines();
			else if ((args.length == 1 || args.length == 3 || args.length == 4)
					&& Long.parseLong(args[0]) >= 0)
				decodeOne(args);
			else
				throw new NumberFormatException();
		} catch (NumberFormatException e) {
			System.err.println(USAGE);
			System.exit(1);
		}
	}
}
